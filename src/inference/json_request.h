// The request reader for all APIs whose bodies are JSON.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "evenkeel/inference/request_reader.h"
#include "evenkeel/json/scanner.h"
#include "inference/prompt_hash.h"
#include "inference/request_facts.h"
#include "inference/request_schema.h"
#include "inference/tensor_size.h"

namespace evenkeel {

class JsonRequest final : public RequestReader {
 public:
  /// `json_bytes`: how many of the body's bytes are JSON; tensors follow (KServe's binary data).
  /// `members`: see RequestReader::create.
  JsonRequest(InferenceApi api, InferenceRequest& into,
              std::optional<std::uint64_t> json_bytes = std::nullopt,
              const std::vector<std::string>* members = nullptr);

  bool read(std::string_view bytes) override;
  bool finish() override;
  void stop() override;
  bool done() const override { return settled_; }
  const Error& error() const override { return error_; }

  std::vector<BodyRange> take_model_values() override { return std::move(model_values_); }
  std::optional<BodyRange> stream_options() const override { return stream_options_; }
  std::optional<std::uint64_t> object_begin() const override { return object_begin_; }
  bool has_members() const override { return has_members_; }
  std::vector<MemberPlace> take_members() override { return std::move(member_places_); }

 private:
  /// What one member of the outermost object has added to the prompt: taken back if it comes again.
  struct Contribution {
    const Member* member = nullptr;
    std::uint64_t bytes = 0;
    std::uint64_t tokens = 0;
    std::uint32_t images = 0;
  };

  /// True if Go's encoding/json reads the request.
  bool is_go() const { return api_ == InferenceApi::ollama || api_ == InferenceApi::ollama_model; }
  void on_token(json::Token token);
  void on_key_bytes(bool ended);
  void begin_member(Slot object, std::string_view key);
  void on_root_key(std::string_view key);
  std::size_t max_key() const;
  void find_member(std::string_view key);
  void place_member(json::Token token);
  void begin_prompt_member(const Member& member);
  void begin_container(bool object);
  void end_container();
  void on_text(bool ended);
  void end_text();
  void end_captured();
  void set_text(std::string text);
  void on_number();
  void on_literal(bool truth);
  void end_plain_value();
  void capture(std::string_view raw, std::size_t max_decoded);
  void end_media();
  void count_text(std::uint64_t bytes);
  void count_image();
  bool fail(std::string_view problem);

  const InferenceApi api_;
  InferenceRequest& into_;
  std::optional<std::uint64_t> json_bytes_left_;
  json::Scanner scanner_;
  RequestFacts facts_;
  PromptHash hash_;
  BlockHash media_;
  TensorSize tensor_;
  std::array<Slot, json::Scanner::max_depth + 1> slots_;  // of each open container
  Slot value_slot_ = Slot::root;                          // of the next value
  PromptSection section_ = PromptSection::messages;
  bool from_user_ = false;     // the message that is read
  bool text_is_open_ = false;  // text of the prompt, of which more follows
  bool settled_ = false;
  std::string captured_;  // a string that is kept, as it was sent
  std::array<Contribution, 8> contributions_;
  Contribution* contribution_ = contributions_.data();
  std::uint64_t container_begin_ = 0;  // of `stream_options`
  std::vector<BodyRange> model_values_;
  std::optional<BodyRange> stream_options_;
  std::optional<std::uint64_t> object_begin_;
  bool has_members_ = false;
  const std::vector<std::string>* members_;  // that are looked for; null: none
  std::optional<std::uint32_t> member_;      // whose value is read
  bool member_is_exact_ = true;
  std::uint64_t member_begin_ = 0;
  std::vector<MemberPlace> member_places_;
  Error error_;
};

}  // namespace evenkeel
