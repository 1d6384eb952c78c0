// Certificates of test authorities, made when a test runs, in a temporary folder.
#pragma once

#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

namespace evenkeel {

/// A folder that is removed with its files.
class CertificateDirectory {
 public:
  CertificateDirectory() {
    std::string pattern = ::testing::TempDir() + "evenkeel-certificates-XXXXXX";
    path_ = ::mkdtemp(pattern.data());
  }
  CertificateDirectory(const CertificateDirectory&) = delete;
  ~CertificateDirectory() { std::filesystem::remove_all(path_); }

  std::string file(const std::string& name) const { return path_ + "/" + name; }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(file(name)) << text;
    return file(name);
  }

 private:
  std::string path_;
};

/// The names and the validity of a certificate.
struct Subject {
  std::string common_name;
  std::string alternatives;  ///< "DNS:a.example,DNS:*.b.example,IP:127.0.0.1"; empty: none
  long begins_in = -3600;    ///< seconds
  long ends_in = 3600 * 24 * 30;
};

struct IdentityFiles {
  std::string cert;
  std::string key;
};

class Authority {
 public:
  Authority(CertificateDirectory& folder, const std::string& name) : folder_(folder), name_(name) {
    key_.reset(EVP_EC_gen("P-256"));
    certificate_ = make({.common_name = name}, key_.get(), nullptr);
    file_ = folder.file(name + ".pem");
    save(file_, [this](std::FILE* to) { PEM_write_X509(to, certificate_.get()); });
  }

  /// The file with its certificate.
  const std::string& file() const { return file_; }

  IdentityFiles issue(const std::string& name, const Subject& subject) {
    const Key key(EVP_EC_gen("P-256"));
    const Certificate certificate = make(subject, key.get(), certificate_.get());
    const IdentityFiles files{folder_.file(name + "-cert.pem"), folder_.file(name + "-key.pem")};
    save(files.cert, [&](std::FILE* to) { PEM_write_X509(to, certificate.get()); });
    save(files.key, [&](std::FILE* to) {
      PEM_write_PrivateKey(to, key.get(), nullptr, nullptr, 0, nullptr, nullptr);
    });
    return files;
  }

  /// A file with a list that revokes these certificates of this authority and is good for
  /// `seconds`.
  std::string revoke(const std::string& name, const std::vector<IdentityFiles>& revoked,
                     long seconds = 3600) {
    const RevocationList list(X509_CRL_new());
    X509_CRL_set_version(list.get(), X509_CRL_VERSION_2);
    X509_CRL_set_issuer_name(list.get(), X509_get_subject_name(certificate_.get()));
    const Time from(X509_gmtime_adj(nullptr, -7200));
    const Time until(X509_gmtime_adj(nullptr, seconds));
    X509_CRL_set1_lastUpdate(list.get(), from.get());
    X509_CRL_set1_nextUpdate(list.get(), until.get());
    for (const IdentityFiles& files : revoked) {
      std::FILE* file = std::fopen(files.cert.c_str(), "r");
      const Certificate certificate(PEM_read_X509(file, nullptr, nullptr, nullptr));
      std::fclose(file);
      X509_REVOKED* entry = X509_REVOKED_new();
      X509_REVOKED_set_serialNumber(entry, X509_get_serialNumber(certificate.get()));
      X509_REVOKED_set_revocationDate(entry, from.get());
      X509_CRL_add0_revoked(list.get(), entry);
    }
    X509_CRL_sign(list.get(), key_.get(), EVP_sha256());
    save(folder_.file(name), [&](std::FILE* to) { PEM_write_X509_CRL(to, list.get()); });
    return folder_.file(name);
  }

 private:
  struct Free {
    void operator()(X509_CRL* list) const { X509_CRL_free(list); }
    void operator()(ASN1_TIME* time) const { ASN1_TIME_free(time); }
    void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
    void operator()(X509* certificate) const { X509_free(certificate); }
  };
  using Key = std::unique_ptr<EVP_PKEY, Free>;
  using Certificate = std::unique_ptr<X509, Free>;
  using RevocationList = std::unique_ptr<X509_CRL, Free>;
  using Time = std::unique_ptr<ASN1_TIME, Free>;

  template <class Write>
  static void save(const std::string& file, Write write) {
    std::FILE* to = std::fopen(file.c_str(), "w");
    ASSERT_NE(to, nullptr) << file;
    write(to);
    std::fclose(to);
  }

  /// `issuer` null: self-signed, an authority.
  Certificate make(const Subject& subject, EVP_PKEY* key, X509* issuer) {
    Certificate made(X509_new());
    X509* certificate = made.get();
    X509_set_version(certificate, X509_VERSION_3);
    ASN1_INTEGER_set(X509_get_serialNumber(certificate), ++serial_);
    X509_gmtime_adj(X509_getm_notBefore(certificate), subject.begins_in);
    X509_gmtime_adj(X509_getm_notAfter(certificate), subject.ends_in);
    X509_set_pubkey(certificate, key);
    X509_NAME* name = X509_get_subject_name(certificate);
    X509_NAME_add_entry_by_txt(name, "O", MBSTRING_UTF8,
                               reinterpret_cast<const unsigned char*>("Test \"Works\""), -1, -1, 0);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8,
                               reinterpret_cast<const unsigned char*>(subject.common_name.c_str()),
                               -1, -1, 0);
    X509_set_issuer_name(certificate, issuer == nullptr ? name : X509_get_subject_name(issuer));
    add(certificate, issuer, NID_basic_constraints,
        issuer == nullptr ? "critical,CA:TRUE" : "critical,CA:FALSE");
    if (!subject.alternatives.empty()) {
      add(certificate, issuer, NID_subject_alt_name, subject.alternatives.c_str());
    }
    X509_sign(certificate, key_.get(), EVP_sha256());
    return made;
  }

  static void add(X509* certificate, X509* issuer, int what, const char* value) {
    X509V3_CTX context;
    X509V3_set_ctx_nodb(&context);
    X509V3_set_ctx(&context, issuer == nullptr ? certificate : issuer, certificate, nullptr,
                   nullptr, 0);
    X509_EXTENSION* extension = X509V3_EXT_conf_nid(nullptr, &context, what, value);
    ASSERT_NE(extension, nullptr) << value;
    X509_add_ext(certificate, extension, -1);
    X509_EXTENSION_free(extension);
  }

  CertificateDirectory& folder_;
  std::string name_;
  std::string file_;
  Key key_;
  Certificate certificate_;
  long serial_ = 0;
};

}  // namespace evenkeel
