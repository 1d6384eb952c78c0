#include "proxy/split.h"

#include "evenkeel/base/hash.h"

namespace evenkeel {

std::optional<std::uint64_t> conversation_of(const Request& request, std::string_view header) {
  const auto session = request.fields.value(header);
  if (session && !session->empty()) return hash_of(*session);
  if (request.info.inference == nullptr) return std::nullopt;
  const InferenceRequest& body = request.info.inference->request;
  if (!body.session.empty()) return hash_of(body.session);
  // Prompts of other tasks begin alike without being of one conversation.
  if (body.task == InferenceTask::chat && body.conversation != 0) return body.conversation;
  return std::nullopt;
}

}  // namespace evenkeel
