#pragma once

#include <boost/beast/core/error.hpp>
#include <boost/beast/http/error.hpp>

/// Whether Beast's parser failed because of the framing fields, which it checks in the same pass.
inline bool is_framing_error(const boost::beast::error_code& code) {
  using boost::beast::http::error;
  return code == error::bad_content_length || code == error::bad_transfer_encoding ||
         code == error::multiple_content_length;
}
