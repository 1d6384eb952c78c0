#include "evenkeel/http/message.h"

namespace evenkeel {
namespace {

class StringBody final : public Body {
 public:
  explicit StringBody(std::string bytes) : bytes_(std::move(bytes)) {}
  Task<Result<Chunk>> read() override {
    return Result<Chunk>(Chunk{.bytes = bytes_, .last = true});
  }
  std::optional<std::uint64_t> length() const override { return bytes_.size(); }
  bool rewind() override { return true; }
  bool rewindable() const override { return true; }

 private:
  std::string bytes_;
};

}  // namespace

BodyPtr make_body(std::string bytes) {
  if (bytes.empty()) return nullptr;
  return std::make_unique<StringBody>(std::move(bytes));
}

}  // namespace evenkeel
