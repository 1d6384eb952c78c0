#include "net/certificate_contents.h"

#include <algorithm>
#include <array>
#include <ctime>
#include <memory>
#include <string_view>
#include <utility>

#include "evenkeel/base/ascii.h"
#include "evenkeel/base/host.h"

namespace evenkeel {
namespace {

std::string_view text_of(const ASN1_STRING* text) {
  return {reinterpret_cast<const char*>(ASN1_STRING_get0_data(text)),
          static_cast<std::size_t>(ASN1_STRING_length(text))};
}

/// Calls `visit` with the type and the text of each DNS name and URI.
template <class Visit>
void each_alternative(const X509* certificate, const Visit& visit) {
  using Owned = std::unique_ptr<GENERAL_NAMES, OpensslDeleter<GENERAL_NAMES_free>>;
  const Owned alternatives(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  ERR_clear_error();
  for (int i = 0; i < sk_GENERAL_NAME_num(alternatives.get()); ++i) {
    const GENERAL_NAME* const name = sk_GENERAL_NAME_value(alternatives.get(), i);
    if (name->type == GEN_DNS) visit(GEN_DNS, text_of(name->d.dNSName));
    if (name->type == GEN_URI) visit(GEN_URI, text_of(name->d.uniformResourceIdentifier));
  }
}

/// True if all of it is visible ASCII, as IA5String has it.
bool is_visible(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c > ' ' && c < '\x7f'; });
}

}  // namespace

std::chrono::sys_seconds expiry_of(const X509* certificate) {
  std::tm parts{};
  if (ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &parts) != 1) return {};
  return std::chrono::sys_seconds(std::chrono::seconds(timegm(&parts)));
}

std::vector<std::string> server_names_of(const X509* certificate) {
  std::vector<std::string> names;
  each_alternative(certificate, [&](int type, std::string_view text) {
    if (type == GEN_DNS) names.push_back(normal_host(text));
  });
  if (!names.empty()) return names;
  std::array<char, 256> common{};
  if (X509_NAME_get_text_by_NID(X509_get_subject_name(certificate), NID_commonName, common.data(),
                                common.size()) > 0) {
    names.push_back(normal_host(common.data()));
  }
  return names;
}

CertificateNames client_names_of(const X509* certificate) {
  CertificateNames all;
  all.expires = static_cast<double>(expiry_of(certificate).time_since_epoch().count());
  each_alternative(certificate, [&](int type, std::string_view text) {
    const bool is_uri = text.find(':') != text.npos;
    if (text.empty() || !is_visible(text) || is_uri != (type == GEN_URI)) return;
    all.names.push_back(is_uri ? std::string(text) : lower_case(text));
  });
  return all;
}

}  // namespace evenkeel
