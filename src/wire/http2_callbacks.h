// nghttp2's view of a session: its callbacks, options and memory.
#pragma once

#include <nghttp2/nghttp2.h>

#include "http2_session.h"

namespace evenkeel {

/// An nghttp2 session whose callbacks go to `owner` and its streams.
nghttp2_session* make_nghttp2_session(Http2Session& owner, Http2Guard::Side side);

/// The source of a message body: the chunk that its stream offers.
nghttp2_data_provider nghttp2_body_source();

}  // namespace evenkeel
