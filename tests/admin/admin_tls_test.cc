// TLS of the admin listener.
#include "evenkeel/admin/admin_tls.h"

#include <cstdio>
#include <memory>
#include <string>

#include "admin/running_admin.h"
#include "evenkeel/admin/client.h"
#include "net/certificates.h"

namespace evenkeel::testing {
namespace {

using ::testing::HasSubstr;
using namespace std::chrono_literals;

class AdminTlsTest : public RunningAdmin {
 protected:
  static AdminConfig with(const IdentityFiles& files) {
    AdminConfig config;
    config.tls = ListenerTlsConfig{.certificates = {{files.cert, files.key}}};
    return config;
  }
  std::string detail_of(const IdentityFiles& files) const {
    const auto loaded = load_admin_tls(with(files));
    return loaded ? "loaded" : loaded.error().detail;
  }
  std::string protected_key() const {
    const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key(EVP_EC_gen("P-256"),
                                                                  &EVP_PKEY_free);
    const std::string path = folder_.file("protected.pem");
    std::FILE* const file = std::fopen(path.c_str(), "w");
    const std::string phrase = "secret";
    PEM_write_PKCS8PrivateKey(file, key.get(), EVP_aes_128_cbc(), phrase.data(),
                              static_cast<int>(phrase.size()), nullptr, nullptr);
    std::fclose(file);
    return path;
  }

  CertificateDirectory folder_;
  Authority authority_{folder_, "authority"};
  IdentityFiles files_ = authority_.issue("admin", {.alternatives = "IP:127.0.0.1"});
};

TEST_F(AdminTlsTest, IsAbsentUnlessConfigured) {
  const auto loaded = load_admin_tls({});

  ASSERT_TRUE(loaded.ok());
  EXPECT_EQ(*loaded, nullptr);
}

TEST_F(AdminTlsTest, AKeyWithAPassPhraseIsAnErrorAndNoPrompt) {
  EXPECT_THAT(detail_of({files_.cert, protected_key()}),
              AllOf(HasSubstr("protected.pem"), HasSubstr("protected by a pass phrase")));
}

TEST_F(AdminTlsTest, NamesTheFileThatCannotBeUsed) {
  EXPECT_EQ(detail_of(files_), "loaded");
  EXPECT_THAT(detail_of({"/nowhere/cert.pem", files_.key}), HasSubstr("/nowhere/cert.pem"));
  EXPECT_THAT(detail_of({files_.cert, "/nowhere/key.pem"}), HasSubstr("/nowhere/key.pem"));
  const IdentityFiles other = authority_.issue("other", {.alternatives = "IP:127.0.0.1"});
  EXPECT_THAT(detail_of({files_.cert, other.key}), HasSubstr(other.key));
}

TEST_F(AdminTlsTest, ServesTheCertificatesOfTheStatusToNewConnections) {
  start(std::string(two_pools) + "admin: {tls: {certificates: [{cert: '" + files_.cert +
        "', key: '" + files_.key + "'}]}}\n");
  const auto ready = [&](const std::string& ca) {
    auto client = AdminClient::open({.address = "https://" + host(), .ca_file = ca});
    EXPECT_TRUE(client.ok());
    const auto reply = (*client)->get("/readyz", 10s);
    return reply.ok() && reply->status == 200;
  };
  EXPECT_TRUE(ready(authority_.file()));

  Authority successor(folder_, "successor");
  const auto renewed =
      load_admin_tls(with(successor.issue("new", {.alternatives = "IP:127.0.0.1"})));
  ASSERT_TRUE(renewed.ok());
  status_.update([&](RuntimeStatus& status) { status.admin_tls = *renewed; });

  EXPECT_FALSE(ready(authority_.file()));
  EXPECT_TRUE(ready(successor.file()));
}

TEST_F(AdminTlsTest, ClientsOfTheWrongSchemeOrAuthorityAreToldTheCure) {
  const auto why = [&](const AdminTarget& target) {
    auto client = AdminClient::open(target);
    EXPECT_TRUE(client.ok());
    const auto reply = (*client)->get("/readyz", 10s);
    return reply.ok() ? "it answered" : reply.error().detail;
  };
  start();
  EXPECT_THAT(why({.address = "https://" + host()}), HasSubstr("leave out https:// in --admin"));
  start(std::string(two_pools) + "admin: {tls: {certificates: [{cert: '" + files_.cert +
        "', key: '" + files_.key + "'}]}}\n");
  EXPECT_THAT(why({.address = "http://" + host()}), HasSubstr("needs https:// in --admin"));
  EXPECT_THAT(why({.address = "https://" + host()}), HasSubstr("with --ca-file"));
}

TEST_F(AdminTlsTest, NeverAnswersInTheClearInstead) {
  start(std::string(two_pools) + "admin: {tls: {certificates: [{cert: '" + files_.cert +
        "', key: '" + files_.key + "'}]}}\n");
  status_.update([](RuntimeStatus& status) { status.admin_tls = nullptr; });

  EXPECT_EQ(get("/readyz").status, 0);
}

}  // namespace
}  // namespace evenkeel::testing
