#include "evenkeel/net/websocket_key.h"

#include <openssl/evp.h>
#include <openssl/rand.h>
#include <openssl/sha.h>

#include <array>
#include <span>

namespace evenkeel {
namespace {

constexpr std::size_t key_bytes = 16;

std::string base64(std::span<const unsigned char> bytes) {
  std::string text(4 * ((bytes.size() + 2) / 3), '\0');  // OpenSSL writes a zero behind it
  EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()), bytes.data(),
                  static_cast<int>(bytes.size()));
  return text;
}

}  // namespace

std::string make_websocket_key() {
  // A key that is not random would do too: it only shows that the server has read it.
  std::array<unsigned char, key_bytes> key{};
  RAND_bytes(key.data(), static_cast<int>(key.size()));
  return base64(key);
}

std::string websocket_accept(std::string_view key) {
  const std::string text = std::string(key) + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
  std::array<unsigned char, SHA_DIGEST_LENGTH> digest{};
  EVP_Digest(text.data(), text.size(), digest.data(), nullptr, EVP_sha1(), nullptr);
  return base64(digest);
}

}  // namespace evenkeel
