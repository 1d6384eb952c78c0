// What tells requests apart whose answers are used again, and answers that another replica has
// kept. The first byte says what the rest is: an answer as bytes, or two requests, between which is
// a byte 0xff; each is a list of texts between zeros. Properties: two requests have the same key if
// and only if nothing that it depends on differs, however their bodies are cut; bytes are never
// read beyond their end, and what they give is an answer that may be used.
#include "proxy/answer_key.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "evenkeel/upstream/redis_answers.h"
#include "require.h"

namespace {

using namespace evenkeel;

constexpr std::array<std::string_view, 8> names{
    "authorization", "x-api-key",       "cookie",          "accept",
    "content-type",  "accept-encoding", "accept-language", "anthropic-version"};

/// A body in pieces of this size.
class Pieces final : public Body {
 public:
  Pieces(std::string bytes, std::size_t size) : bytes_(std::move(bytes)), size_(size) {}

  Task<Result<Chunk>> read() override {
    const std::string_view piece = std::string_view(bytes_).substr(position_, size_);
    position_ += piece.size();
    return Result<Chunk>(Chunk{.bytes = piece, .last = position_ == bytes_.size()});
  }
  bool rewindable() const override { return true; }
  bool rewind() override {
    position_ = 0;
    return true;
  }

 private:
  const std::string bytes_;
  const std::size_t size_;
  std::size_t position_ = 0;
};

/// The texts of a request, in the order of the members of `key_of`; the last one is its body.
struct Texts {
  std::array<std::string, 9> all;

  explicit Texts(std::string_view rest) {
    for (std::string& text : all) {
      const bool is_body = &text == &all.back();
      const std::size_t end = is_body ? rest.size() : std::min(rest.find('\0'), rest.size());
      text = rest.substr(0, end);
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    std::string& name = all[6];
    name = names[name.empty() ? 0 : static_cast<unsigned char>(name[0]) % names.size()];
  }
  bool operator==(const Texts&) const = default;

  AnswerKey key(std::size_t piece) const {
    static const PoolConfig pool{.name = "pool"};
    static const AnswerKeys keys(pool, {}, {1, 2});
    static const BodyConfig none;
    const auto& [tenant, certificate, model, route, host, path, name, value, body] = all;
    const ApiKey api_key{.id = model};
    Request request{.method = "POST", .authority = host, .path = path};
    request.fields.add(name, value);
    request.body = std::make_unique<Pieces>(body, piece);
    request.info.inference = std::make_unique<InferenceInfo>();
    RequestIdentity& identity = request.info.identity;
    identity.tenant.name = tenant;
    identity.tenant.key = &api_key;
    identity.certificate_hash = certificate;
    identity.route = route;
    const auto key = keys.key_of(request, none);
    require(key.has_value(), "a request that was read has a key");
    require(read_whole(*request.body) == body, "the body is at its start again");
    return *key;
  }
};

void compare(std::string_view text) {
  const std::size_t end = std::min(text.find('\xff'), text.size());
  const Texts one(text.substr(0, end));
  const Texts other(text.substr(std::min(end + 1, text.size())));
  require(one.key(1) == one.key(64), "the key does not depend on how the body is cut");
  require((one.key(7) == other.key(64)) == (one == other),
          "two requests have the same key if and only if they are the same");
}

void read_answer(std::string_view bytes) {
  const Instant now{std::chrono::hours(1'000'000)};
  const auto time = std::chrono::system_clock::from_time_t(1'800'000'000);
  const auto answer = parse_answer(bytes, now, time);
  if (answer == nullptr) return;
  require(answer->stored <= now && answer->stale_until > now, "an answer may be used");
  const auto again = parse_answer(answer_to_bytes(*answer, now, time), now, time);
  require(again != nullptr && again->body == answer->body &&
              again->fields.size() == answer->fields.size() &&
              again->has_length == answer->has_length,
          "it stays the same");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  // A copy, so that ASan detects reads beyond it.
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] == 'a') {
    read_answer(text);
  } else {
    compare(text);
  }
  return 0;
}
