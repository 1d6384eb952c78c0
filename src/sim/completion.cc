#include "sim/completion.h"

#include "sim/tokenizer.h"

namespace evenkeel {

class Completion::Choice final : public Generation {
 public:
  Choice(Completion& completion, ChoiceSpec plan, bool streams)
      : completion_(completion),
        seed_(plan.word_seed),
        shape_(std::move(plan.shape)),
        streams_(streams) {
    adapter = plan.adapter;
    prompt_tokens = plan.prompt_tokens;
    output_tokens = plan.output_tokens;
    block_hashes = std::move(plan.block_hashes);
    max_tokens = plan.max_tokens;
    stops_naturally = plan.stops_naturally;
  }

  void on_token(std::uint32_t index, bool last) override {
    if (last) --completion_.unfinished_;
    if (streams_) append_event(index, last);
    if (streams_ || completion_.finished()) completion_.progress_.raise();
  }

  ChoiceText text() const {
    ChoiceText choice{.finished_stop = stops_naturally};
    for (std::uint32_t i = 0; i < generated(); ++i) {
      if (i > 0) choice.text += ' ';
      choice.text += generated_word(seed_, i);
    }
    return choice;
  }

 private:
  void append_event(std::uint32_t index, bool last) {
    std::string& out = completion_.pending_;
    if (index == 0) out += shape_.opening;
    out += shape_.before;
    if (index > 0) out += ' ';
    out += generated_word(seed_, index);
    out += !last ? shape_.after : stops_naturally ? shape_.after_stop : shape_.after_length;
  }

  Completion& completion_;
  std::uint64_t seed_;
  EventTemplate shape_;
  bool streams_;
};

Completion::Completion(Loop& loop, EngineRunner& runner, CompletionObserver& observer,
                       int client_fd, std::vector<ChoiceSpec> plans, bool streams)
    : runner_(runner),
      observer_(observer),
      client_fd_(client_fd),
      progress_(loop),
      unfinished_(plans.size()) {
  choices_.reserve(plans.size());
  for (ChoiceSpec& plan : plans) {
    choices_.push_back(std::make_unique<Choice>(*this, std::move(plan), streams));
    runner_.submit(*choices_.back());
  }
}

Completion::~Completion() {
  const bool cut_short = unfinished_ > 0;
  choices_.clear();
  if (cut_short) {
    observer_.aborted(client_fd_);
  } else {
    observer_.completed();
  }
}

std::vector<ChoiceText> Completion::texts() const {
  std::vector<ChoiceText> texts;
  for (const auto& choice : choices_) texts.push_back(choice->text());
  return texts;
}

Usage Completion::usage(bool with_cached, std::uint32_t choices_per_prompt) const {
  Usage usage;
  std::uint64_t cached = 0;
  for (std::size_t i = 0; i < choices_.size(); ++i) {
    usage.completion_tokens += choices_[i]->generated();
    if (i % choices_per_prompt != 0) continue;
    usage.prompt_tokens += choices_[i]->prompt_tokens;
    cached += choices_[i]->cached_tokens();
  }
  if (with_cached) usage.cached_tokens = cached;
  return usage;
}

SseBody::SseBody(std::unique_ptr<Completion> completion, StreamTrailer end)
    : completion_(std::move(completion)), end_(std::move(end)) {}

Task<Result<Chunk>> SseBody::read() {
  if (!completion_->pending().empty()) return Result<Chunk>(take());
  return wait_and_take();
}

Task<Result<Chunk>> SseBody::wait_and_take() {
  while (completion_->pending().empty()) {
    co_await completion_->progress().wait();
  }
  co_return take();
}

Chunk SseBody::take() {
  sending_.clear();
  sending_.swap(completion_->pending());
  if (!completion_->finished()) return {.bytes = sending_};
  if (end_.usage) {
    sending_ +=
        usage_event(end_.head, completion_->usage(end_.cached_tokens, end_.choices_per_prompt));
  }
  if (end_.send_done) sending_ += done_event;
  return {.bytes = sending_, .last = true};
}

}  // namespace evenkeel
