#include "epp/checker_stream.h"

#include <utility>

#include "evenkeel/base/deadline.h"
#include "evenkeel/base/path.h"

namespace evenkeel {
namespace {

constexpr std::size_t max_message_bytes = std::size_t{64} << 20;

StreamEvent broken(std::string how) {
  return {.kind = StreamEvent::Kind::broken, .text = std::move(how)};
}

}  // namespace

/// What is yet to be sent.
struct CheckStream::Upload {
  explicit Upload(Loop& loop) : changed(loop) {}
  std::string bytes;
  bool closed = false;
  Signal changed;
};

class CheckStream::UploadBody final : public Body {
 public:
  explicit UploadBody(Upload& upload) : upload_(upload) {}

  Task<Result<Chunk>> read() override {
    while (upload_.bytes.empty() && !upload_.closed) co_await upload_.changed.wait();
    current_ = std::exchange(upload_.bytes, {});
    co_return Chunk{.bytes = current_, .last = upload_.closed};
  }

 private:
  Upload& upload_;
  std::string current_;
};

CheckStream::CheckStream(Loop& loop, BackendClient& client, const ServerAccess& access)
    : loop_(loop),
      upload_(std::make_unique<Upload>(loop)),
      request_(access.request("POST", "/envoy.service.ext_proc.v3.ExternalProcessor/Process")),
      reader_(max_message_bytes) {
  request_.fields.add("content-type", "application/grpc", FieldId::content_type);
  request_.wants_trailers = true;
  request_.body = std::make_unique<UploadBody>(*upload_);
  opening_ = client.open(request_, LinkPool::LinkChoice::any, on_send_);
}

CheckStream::~CheckStream() = default;

void CheckStream::send(const ext_proc::ProcessingRequest& message) {
  append_grpc_frame(upload_->bytes, message.SerializeAsString());
  upload_->changed.raise();
}

void CheckStream::half_close() {
  upload_->closed = true;
  upload_->changed.raise();
}

Task<StreamEvent> CheckStream::next(Instant deadline) {
  if (!receiving_.valid()) receiving_ = receive();
  co_await UntilDoneOrDeadline(receiving_, loop_, deadline);
  if (!receiving_.ready()) co_return StreamEvent{};
  co_return receiving_.take();
}

/// The next message of the bytes that are here, or why there will be none.
std::optional<StreamEvent> CheckStream::take_buffered() {
  switch (reader_.read(bytes_)) {
    case GrpcMessageReader::Step::more: return std::nullopt;
    case GrpcMessageReader::Step::too_large: return broken("a message of more than 64 MiB");
    case GrpcMessageReader::Step::malformed: return broken("bytes that are no gRPC message");
    case GrpcMessageReader::Step::message: break;
  }
  if (reader_.compressed()) return broken("a compressed message, which was not offered");
  StreamEvent event{.kind = StreamEvent::Kind::message};
  const std::string_view bytes = reader_.message();
  if (!event.message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return broken("a message that is no ProcessingResponse");
  }
  return event;
}

/// How the call has ended: by its trailers, or by its head if that is all that there is.
StreamEvent CheckStream::end_of(const Fields* trailers) const {
  const Fields& fields = trailers != nullptr ? *trailers : opened_->response.fields;
  const auto status = fields.value("grpc-status");
  if (!status) return broken("an end without grpc-status");
  return {.kind = StreamEvent::Kind::end,
          .status = parse_grpc_status(*status).value_or(GrpcStatus::unknown),
          .text = percent_decoded(fields.value("grpc-message").value_or(""))};
}

Task<StreamEvent> CheckStream::receive() {
  if (!opened_) {
    auto opened = co_await opening_;
    if (!opened) co_return broken(opened.error().detail);
    opened_.emplace(std::move(*opened));
    const int status = opened_->response.status;
    if (status != 200) co_return broken("HTTP status " + std::to_string(status));
    ended_ = opened_->response.body == nullptr;
    if (ended_) end_ = end_of(nullptr);
  }
  while (true) {
    if (auto event = take_buffered()) co_return std::move(*event);
    if (ended_) co_return std::move(*end_);
    auto chunk = co_await opened_->response.body->read();
    if (!chunk) co_return broken(chunk.error().detail);
    bytes_ = chunk->bytes;
    if (!chunk->last) continue;
    ended_ = true;
    end_ = end_of(chunk->trailers);
  }
}

}  // namespace evenkeel
