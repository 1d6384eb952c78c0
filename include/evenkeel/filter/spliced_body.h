// A body with some of its bytes replaced.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "evenkeel/http/inference_info.h"
#include "evenkeel/http/message.h"

namespace evenkeel {

/// What stands in place of a part of a body; an empty part: what is inserted before its first byte.
struct BodyEdit {
  BodyRange replaced;
  std::string by;
  /// Null, or whether this edit is made; changes only while the body is at its start.
  const bool* applies = nullptr;
};

/// Passes a body on with some parts of it replaced, whatever the chunks that it comes in.
class SplicedBody final : public Body {
 public:
  /// `edits` in the order of their places, none within another. REQUIRES: `body` is at its start,
  /// and has all the bytes that are replaced.
  SplicedBody(BodyPtr body, std::vector<BodyEdit> edits);

  Task<Result<Chunk>> read() override;
  std::optional<std::uint64_t> length() const override;
  bool rewind() override;
  bool rewindable() const override { return body_->rewindable(); }
  void commit(bool sent) override { body_->commit(sent); }

  /// The body as it was. This one is then of no more use.
  BodyPtr release() { return std::move(body_); }

 private:
  Task<Result<Chunk>> wait(Task<Result<Chunk>> next);
  std::optional<Chunk> take_piece();

  BodyPtr body_;
  const std::vector<BodyEdit> edits_;
  std::size_t next_ = 0;              // of the edits
  std::uint64_t position_ = 0;        // in `body_`: of the first byte of `chunk_`
  std::uint64_t replaced_until_ = 0;  // in `body_`: the end of the last edit's place
  std::optional<Chunk> chunk_;        // what is left of the body's last chunk
};

}  // namespace evenkeel
