#include "evenkeel/net/sha256.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

namespace evenkeel {

Sha256 sha256(std::string_view bytes) {
  Sha256 digest{};
  EVP_Digest(bytes.data(), bytes.size(), digest.data(), nullptr, EVP_sha256(), nullptr);
  return digest;
}

Sha256 hmac_sha256(std::string_view key, std::string_view bytes) {
  Sha256 digest{};
  HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
       reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), digest.data(), nullptr);
  return digest;
}

}  // namespace evenkeel
