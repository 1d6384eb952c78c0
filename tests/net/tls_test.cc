#include "evenkeel/net/tls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/ssl.h>

#include <fstream>
#include <memory>
#include <optional>
#include <random>
#include <sstream>
#include <string>

#include "evenkeel/net/socket.h"
#include "net/certificates.h"
#include "wire/peer.h"

namespace evenkeel {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;

std::string noise(std::size_t size) {
  std::mt19937_64 random(size);
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

/// An authority, its certificates, and the two ends of a TLS connection.
class Tls : public testing::Test {
 protected:
  Tls() { clear(); }
  ~Tls() override { clear(); }

  void clear() {
    accepting.drop();
    connecting.drop();
    server.reset();
    client.reset();
  }

  std::shared_ptr<const TlsServerContext> policy(const ListenerTlsConfig& config,
                                                 TlsServerContext::Options options = {}) {
    auto built = TlsServerContext::build(config, "public", std::move(options));
    EXPECT_TRUE(built) << built.error().detail;
    return *built;
  }
  std::shared_ptr<const TlsServerContext> plain_policy(TlsServerContext::Options options = {}) {
    return policy({.certificates = {{localhost.cert, localhost.key}}}, std::move(options));
  }
  std::shared_ptr<const TlsClientContext> trust(PoolTlsConfig config = {}) {
    if (config.ca.empty()) config.ca = authority.file();
    auto built = TlsClientContext::build(config);
    EXPECT_TRUE(built) << built.error().detail;
    return *built;
  }

  /// Both sides of a handshake, until each has ended.
  struct Asked {
    std::string name = "localhost";
    AlpnOffer offer = AlpnOffer::http2_or_http1;
    std::shared_ptr<TlsSessionCache> sessions;
    int buffer_bytes = 0;
  };
  void shake(std::shared_ptr<const TlsServerContext> ours,
             std::shared_ptr<const TlsClientContext> theirs, Asked asked) {
    clear();
    const SocketPair ends = connected_pair(asked.buffer_bytes);
    server = std::make_unique<Socket>(loop, ends.ours);
    client = std::make_unique<Socket>(loop, ends.theirs);
    accepting = server->accept_tls(std::move(ours), Clock::now() + 10s);
    connecting = client->connect_tls(std::move(theirs), asked.name, asked.offer, asked.sessions,
                                     Clock::now() + 10s);
    ASSERT_TRUE(eventually(loop, [&] { return accepting.ready() && connecting.ready(); }));
    accepted.emplace(accepting.take());
    connected.emplace(connecting.take());
  }
  void shake(std::shared_ptr<const TlsServerContext> ours,
             std::shared_ptr<const TlsClientContext> theirs) {
    shake(std::move(ours), std::move(theirs), Asked());
  }
  void shake() { shake(plain_policy(), trust()); }
  bool shaken() const { return *accepted && *connected; }

  std::string read_some(Socket& socket) {
    std::string all;
    char bytes[5000];
    while (socket.watch().readable()) {
      const auto got = socket.read_some(bytes, sizeof bytes);
      last = got.status;
      if (got.status != Socket::ReadStatus::bytes) break;
      all.append(bytes, got.size);
    }
    return all;
  }
  std::string read_bytes(Socket& socket, std::size_t size) {
    std::string all;
    EXPECT_TRUE(eventually(loop, [&] { return all += read_some(socket), all.size() >= size; }));
    return all;
  }
  Socket::ReadStatus read_to_end(Socket& socket) {
    last = Socket::ReadStatus::would_block;
    eventually(loop, [&] {
      read_some(socket);
      return last == Socket::ReadStatus::end || last == Socket::ReadStatus::failure;
    });
    return last;
  }
  /// Sends some bytes from server to client; the session tickets arrive with them.
  void greet() {
    auto written = server->write("hello", {}, {}, 1s);
    ASSERT_TRUE(written.ready());
    ASSERT_EQ(read_bytes(*client, 5), "hello");
  }

  CertificateDirectory folder;
  Authority authority{folder, "authority"};
  Authority untrusted{folder, "untrusted"};
  IdentityFiles localhost = authority.issue(
      "localhost",
      {.common_name = "localhost", .alternatives = "DNS:localhost,IP:127.0.0.1,IP:::1"});
  Loop loop;
  std::unique_ptr<Socket> server;
  std::unique_ptr<Socket> client;
  Task<Result<Done>> accepting;
  Task<Result<Done>> connecting;
  std::optional<Result<Done>> accepted;
  std::optional<Result<Done>> connected;
  Socket::ReadStatus last = Socket::ReadStatus::would_block;
};

// ---- handshakes ---------------------------------------------------------------------------------

TEST_F(Tls, NegotiatesVersionNameAndProtocol) {
  shake();
  ASSERT_TRUE(shaken());
  for (const Socket* socket : {server.get(), client.get()}) {
    ASSERT_NE(socket->tls(), nullptr);
    EXPECT_EQ(socket->tls()->version, "TLSv1.3");
    EXPECT_EQ(socket->tls()->alpn, "h2");
    EXPECT_EQ(socket->tls()->cipher, "TLS_AES_128_GCM_SHA256");
    EXPECT_FALSE(socket->tls()->resumed);
    EXPECT_EQ(socket->tls_outcome(), TlsOutcome::ok);
  }
  EXPECT_EQ(server->tls()->sni, "localhost");
  EXPECT_TRUE(client->tls()->verified);
  EXPECT_FALSE(server->tls()->verified);
}

TEST_F(Tls, SelectsAProtocolThatBothSupport) {
  shake(plain_policy(), trust(), {.offer = AlpnOffer::http1});
  ASSERT_TRUE(shaken());
  EXPECT_EQ(server->tls()->alpn, "http/1.1");

  shake(plain_policy({.http2 = false}), trust());
  ASSERT_TRUE(shaken());
  EXPECT_EQ(client->tls()->alpn, "http/1.1");

  shake(plain_policy({.http2 = false}), trust(), {.offer = AlpnOffer::http2});
  EXPECT_FALSE(*accepted);
  EXPECT_EQ(server->tls_outcome(), TlsOutcome::alpn);
  ASSERT_FALSE(*connected);
  EXPECT_EQ(connected->error().fault, Fault::tls_failed);
}

TEST_F(Tls, SelectsTheCertificateByName) {
  const auto wild =
      authority.issue("wild", {.common_name = "w", .alternatives = "DNS:*.wild.test"});
  const auto exact =
      authority.issue("exact", {.common_name = "e", .alternatives = "DNS:a.wild.test,DNS:b.test"});
  const auto ours = policy(
      {.certificates = {
           {localhost.cert, localhost.key}, {wild.cert, wild.key}, {exact.cert, exact.key}}});
  // Each connects only if the server's certificate has its name.
  for (const char* name : {"localhost", "x.wild.test", "a.wild.test", "b.test", "127.0.0.1"}) {
    shake(ours, trust(), {.name = name});
    EXPECT_TRUE(shaken()) << name << ": " << (*connected ? "" : connected->error().detail);
  }
  shake(ours, trust(), {.name = "x.y.wild.test"});
  ASSERT_FALSE(*connected);
  EXPECT_EQ(connected->error().detail, "host name does not match x.y.wild.test");
}

TEST_F(Tls, SelectsTheCertificateByANameThatEndsInADot) {
  const auto first = untrusted.issue("first", {.common_name = "f", .alternatives = "DNS:f.test"});
  const auto second =
      authority.issue("second", {.common_name = "s", .alternatives = "DNS:b.test,DNS:*.wild.test"});
  const auto ours = policy({.certificates = {{first.cert, first.key}, {second.cert, second.key}}});
  // The client trusts the second one only, but does not find the name with its dot in it.
  for (const std::string name : {"b.test.", "B.Test.", "a.Wild.test."}) {
    shake(ours, trust(), {.name = name});
    ASSERT_FALSE(*connected);
    EXPECT_EQ(connected->error().detail, "host name does not match " + name);
  }
}

TEST_F(Tls, RejectsABackendWithTheWrongName) {
  const auto verdict = [&](const IdentityFiles& files, PoolTlsConfig believed,
                           const std::string& name) {
    shake(policy({.certificates = {{files.cert, files.key}}}), trust(std::move(believed)),
          {.name = name});
    EXPECT_FALSE(*connected);
    if (*connected) return std::string();
    EXPECT_EQ(connected->error().fault, Fault::tls_failed);
    EXPECT_EQ(connected->error().side, Side::backend);
    EXPECT_TRUE(connected->error().not_processed);
    EXPECT_EQ(client->tls_outcome(), TlsOutcome::certificate);
    EXPECT_FALSE(*accepted);
    return connected->error().detail;
  };
  const auto expired = authority.issue(
      "expired", {.common_name = "e", .alternatives = "DNS:localhost", .ends_in = -60});
  const auto early = authority.issue(
      "early", {.common_name = "e", .alternatives = "DNS:localhost", .begins_in = 3600});
  EXPECT_EQ(verdict(localhost, {}, "gpu1.internal"), "host name does not match gpu1.internal");
  EXPECT_EQ(verdict(localhost, {}, "127.0.0.2"), "IP address does not match 127.0.0.2");
  EXPECT_EQ(verdict(expired, {}, "localhost"), "certificate has expired");
  EXPECT_EQ(verdict(early, {}, "localhost"), "certificate is not yet valid");
  EXPECT_THAT(verdict(localhost, {.ca = untrusted.file()}, "localhost"),
              HasSubstr("unable to get local issuer certificate"));
}

TEST_F(Tls, SkipsVerificationWhenConfigured) {
  shake(plain_policy(), trust({.verify = false, .ca = untrusted.file()}), {.name = "any.test"});
  ASSERT_TRUE(shaken());
  EXPECT_FALSE(client->tls()->verified);
}

TEST_F(Tls, RequestsClientCertificates) {
  const auto good = authority.issue("good", {.common_name = "good, really"});
  const auto bad = untrusted.issue("bad", {.common_name = "bad"});
  const auto late = authority.issue("late", {.common_name = "late", .ends_in = -60});
  ListenerTlsConfig config{.certificates = {{localhost.cert, localhost.key}},
                           .client_ca = authority.file()};
  const auto as = [&](const IdentityFiles& files) {
    return trust({.cert = files.cert, .key = files.key});
  };

  shake(policy(config), as(good));
  ASSERT_TRUE(shaken());
  EXPECT_TRUE(server->tls()->verified);
  EXPECT_EQ(server->tls()->certificate_subject, R"(CN=good\, really,O=Test \"Works\")");
  EXPECT_EQ(server->tls()->certificate_hash.size(), 64u);

  // Under TLS 1.3 the client's handshake is done before the server's refusal arrives.
  for (const auto& theirs : {trust(), as(bad), as(late)}) {
    shake(policy(config), theirs);
    EXPECT_FALSE(*accepted);
    EXPECT_EQ(server->tls_outcome(), TlsOutcome::certificate) << accepted->error().detail;
    if (*connected) {
      EXPECT_EQ(read_to_end(*client), Socket::ReadStatus::failure);
    }
  }

  config.client_auth = ClientAuth::request;
  shake(policy(config), trust());
  ASSERT_TRUE(shaken());
  EXPECT_FALSE(server->tls()->verified);
  EXPECT_EQ(server->tls()->certificate_subject, "");
  shake(policy(config), as(good));
  ASSERT_TRUE(shaken());
  EXPECT_TRUE(server->tls()->verified);
  shake(policy(config), as(bad));
  EXPECT_FALSE(*accepted);
}

TEST_F(Tls, KnowsTheNamesInACertificateThatItHasVerified) {
  const auto named = authority.issue(
      "named", {.common_name = "common",
                .alternatives = "URI:spiffe://prod/ns/Acme,DNS:App.Acme.Internal,IP:127.0.0.1,"
                                "DNS:spiffe://prod/forged,URI:forged.internal,email:a@b.example",
                .ends_in = 7200});
  const auto bare = authority.issue("bare", {.common_name = "common"});
  ListenerTlsConfig config{.certificates = {{localhost.cert, localhost.key}},
                           .client_ca = authority.file(),
                           .client_auth = ClientAuth::request};
  const auto listener = policy(config);
  const auto theirs = trust({.cert = named.cert, .key = named.key});
  const auto sessions = std::make_shared<TlsSessionCache>();
  for (const bool resumed : {false, true}) {
    shake(listener, theirs, {.sessions = sessions});
    ASSERT_TRUE(shaken());
    EXPECT_EQ(server->tls()->resumed, resumed);
    const CertificateNames& names = server->tls()->certificate_names;
    EXPECT_THAT(names.names, ElementsAre("spiffe://prod/ns/Acme", "app.acme.internal"));
    EXPECT_NEAR(names.expires, unix_seconds() + 7200, 600);
    greet();
  }

  shake(listener, trust({.cert = bare.cert, .key = bare.key}));
  ASSERT_TRUE(shaken());
  EXPECT_TRUE(server->tls()->certificate_names.names.empty());
  shake(listener, trust());
  ASSERT_TRUE(shaken());
  EXPECT_TRUE(server->tls()->certificate_names.names.empty());
}

TEST_F(Tls, RefusesRevokedClientCertificates) {
  const auto good = authority.issue("good", {.common_name = "good"});
  const auto lost = authority.issue("lost", {.common_name = "lost"});
  ListenerTlsConfig config{.certificates = {{localhost.cert, localhost.key}},
                           .client_ca = authority.file(),
                           .client_crl = authority.revoke("revoked.pem", {lost})};
  const auto as = [&](const IdentityFiles& files) {
    return trust({.cert = files.cert, .key = files.key});
  };

  shake(policy(config), as(good));
  ASSERT_TRUE(shaken());
  shake(policy(config), as(lost));
  EXPECT_FALSE(*accepted);
  EXPECT_EQ(server->tls_outcome(), TlsOutcome::certificate);
  EXPECT_THAT(accepted->error().detail, HasSubstr("revoked"));

  // Without a current list of its authority, a certificate may be revoked.
  for (const std::string& list :
       {untrusted.revoke("other.pem", {}), authority.revoke("old.pem", {}, -60)}) {
    config.client_crl = list;
    shake(policy(config), as(good));
    EXPECT_FALSE(*accepted) << list;
  }
}

TEST_F(Tls, ResumesNoSessionFromBeforeARevocation) {
  const auto lost = authority.issue("lost", {.common_name = "lost"});
  ListenerTlsConfig config{.certificates = {{localhost.cert, localhost.key}},
                           .client_ca = authority.file(),
                           .client_crl = authority.revoke("none.pem", {})};
  const auto theirs = trust({.cert = lost.cert, .key = lost.key});
  const auto sessions = std::make_shared<TlsSessionCache>();
  const auto before = policy(config);
  shake(before, theirs, {.sessions = sessions});
  greet();
  shake(before, theirs, {.sessions = sessions});
  ASSERT_TRUE(server->tls()->resumed);
  greet();

  config.client_crl = authority.revoke("lost.pem", {lost});
  const auto built = TlsServerContext::build(config, "public", {}, before.get());
  ASSERT_TRUE(built);
  shake(*built, theirs, {.sessions = sessions});
  EXPECT_FALSE(*accepted);
}

TEST_F(Tls, GivesUpOnAPeerThatStalls) {
  const SocketPair ends = connected_pair();
  server = std::make_unique<Socket>(loop, ends.ours);
  Peer peer(loop, ends.theirs);
  accepting = server->accept_tls(plain_policy(), Clock::now() + 100ms);
  peer.send("\x16\x03\x01");
  ASSERT_TRUE(eventually(loop, [&] { return accepting.ready(); }));
  EXPECT_FALSE(accepting.take());
  EXPECT_EQ(server->tls_outcome(), TlsOutcome::timeout);

  const SocketPair more = connected_pair();
  client = std::make_unique<Socket>(loop, more.ours);
  Peer silent(loop, more.theirs);
  connecting =
      client->connect_tls(trust(), "localhost", AlpnOffer::http1, nullptr, Clock::now() + 100ms);
  ASSERT_TRUE(eventually(loop, [&] { return connecting.ready(); }));
  auto result = connecting.take();
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().fault, Fault::connect_timeout);
  EXPECT_TRUE(result.error().not_processed);
}

TEST_F(Tls, DetectsAPeerThatDoesNotSpeakTls) {
  for (const char* hello :
       {"GET / HTTP/1.1\r\nhost: a\r\n\r\n", "DELETE /", "\x05\x01\x00", "PRI"}) {
    const SocketPair ends = connected_pair();
    server = std::make_unique<Socket>(loop, ends.ours);
    Peer peer(loop, ends.theirs);
    accepting = server->accept_tls(plain_policy(), Clock::now() + 10s);
    peer.send(hello);
    ASSERT_TRUE(eventually(loop, [&] { return accepting.ready(); }));
    EXPECT_FALSE(accepting.take());
    EXPECT_EQ(server->tls_outcome(), TlsOutcome::not_tls);
    server->discard_tls();
    EXPECT_EQ(server->write_now("in the clear"), 12u);
    EXPECT_EQ(peer.read_bytes(12), "in the clear");
    clear();
  }
}

TEST_F(Tls, RefusesPlaintextBeforeTheServersHello) {
  for (const std::string& hello :
       {std::string("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"),
        std::string("\x17\x03\x03\x00\x05hello", 10), std::string("\x14\x03\x03\x00\x01\x01", 6)}) {
    const SocketPair ends = connected_pair();
    client = std::make_unique<Socket>(loop, ends.ours);
    Peer peer(loop, ends.theirs);
    peer.send(hello);
    drain_loop(loop);
    connecting =
        client->connect_tls(trust(), "localhost", AlpnOffer::http1, nullptr, Clock::now() + 10s);
    peer.finish_sending();
    ASSERT_TRUE(eventually(loop, [&] { return connecting.ready(); }));
    auto result = connecting.take();
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().fault, Fault::tls_failed);
    clear();
  }
}

TEST_F(Tls, DetectsAPeerThatClosesDuringTheHandshake) {
  const SocketPair ends = connected_pair();
  server = std::make_unique<Socket>(loop, ends.ours);
  Peer peer(loop, ends.theirs);
  accepting = server->accept_tls(plain_policy(), Clock::now() + 10s);
  peer.close();
  ASSERT_TRUE(eventually(loop, [&] { return accepting.ready(); }));
  EXPECT_FALSE(accepting.take());
  EXPECT_EQ(server->tls_outcome(), TlsOutcome::closed);
}

// ---- resumption ---------------------------------------------------------------------------------

TEST_F(Tls, ResumesSessions) {
  const auto ours = plain_policy();
  const auto theirs = trust();
  const auto sessions = std::make_shared<TlsSessionCache>();
  shake(ours, theirs, {.sessions = sessions});
  greet();
  for (int i = 0; i < 3; ++i) {
    SCOPED_TRACE(i);
    shake(ours, theirs, {.sessions = sessions});
    ASSERT_TRUE(shaken());
    EXPECT_TRUE(client->tls()->resumed);
    EXPECT_TRUE(server->tls()->resumed);
    EXPECT_EQ(server->tls()->sni, "localhost");
    EXPECT_EQ(server->tls_outcome(), TlsOutcome::resumed);
    greet();
  }
}

TEST_F(Tls, RotatesTicketKeysAndKeepsOldOnes) {
  Instant now = Clock::now();
  const auto ours = plain_policy({.clock = [&now] { return now; }});
  const auto theirs = trust();
  const auto first = std::make_shared<TlsSessionCache>();
  shake(ours, theirs, {.sessions = first});
  greet();

  now += 11h + 30min;  // the key is old but valid: the ticket is renewed
  shake(ours, theirs, {.sessions = first});
  EXPECT_TRUE(server->tls()->resumed);
  greet();

  now += 12h;  // after the renewal
  shake(ours, theirs, {.sessions = first});
  EXPECT_TRUE(server->tls()->resumed);
  greet();

  now += 13h;
  shake(ours, theirs, {.sessions = first});
  ASSERT_TRUE(shaken());
  EXPECT_FALSE(server->tls()->resumed);
}

TEST_F(Tls, ResumesNoSessionOfAnotherPolicyOrName) {
  const auto good = authority.issue("good", {.common_name = "good"});
  const auto both =
      authority.issue("both", {.common_name = "b", .alternatives = "DNS:localhost,DNS:other.test"});
  const ListenerTlsConfig open{.certificates = {{both.cert, both.key}}};
  ListenerTlsConfig closed = open;
  closed.client_ca = authority.file();
  const auto open_policy = policy(open);
  const auto closed_policy = policy(closed);
  const auto certified = trust({.cert = good.cert, .key = good.key});
  const auto sessions = std::make_shared<TlsSessionCache>();

  shake(closed_policy, certified, {.sessions = sessions});
  greet();
  shake(closed_policy, certified, {.sessions = sessions});
  EXPECT_TRUE(server->tls()->resumed);
  EXPECT_TRUE(server->tls()->verified);
  EXPECT_THAT(server->tls()->certificate_subject, HasSubstr("good"));
  greet();
  shake(closed_policy, certified, {.name = "other.test", .sessions = sessions});
  ASSERT_TRUE(shaken());
  EXPECT_FALSE(server->tls()->resumed);

  const auto anonymous = std::make_shared<TlsSessionCache>();
  shake(open_policy, trust(), {.sessions = anonymous});
  greet();
  shake(closed_policy, trust(), {.sessions = anonymous});
  EXPECT_FALSE(*accepted);
  EXPECT_EQ(server->tls_outcome(), TlsOutcome::certificate);
}

// ---- data ---------------------------------------------------------------------------------------

TEST_F(Tls, CarriesWhatIsWrittenInPieces) {
  shake();
  EXPECT_TRUE(server->write("head ", "body ", "tail", 1s).ready());
  EXPECT_TRUE(server->write({}, "only body", {}, 1s).ready());
  EXPECT_TRUE(server->write({}, {}, {}, 1s).ready());
  EXPECT_EQ(read_bytes(*client, 23), "head body tailonly body");
}

TEST_F(Tls, StaysReadableUntilEverythingIsTaken) {
  shake();
  auto written = client->write(noise(20'000), {}, {}, 1s);
  ASSERT_TRUE(written.ready());
  ASSERT_TRUE(eventually(loop, [&] { return server->watch().readable(); }));
  drain_loop(loop);
  std::string got;
  char byte;
  while (server->watch().readable()) {  // no event reports what OpenSSL holds
    if (server->read_some(&byte, 1).status != Socket::ReadStatus::bytes) break;
    got += byte;
  }
  EXPECT_EQ(got, noise(20'000));
  EXPECT_EQ(server->read_some(&byte, 1).status, Socket::ReadStatus::would_block);
  EXPECT_FALSE(server->watch().readable());
}

TEST_F(Tls, WaitsForTheRestOfARecordWithoutSpinning) {
  shake();
  // The first half of a record of the client, which the test relays.
  auto written = client->write("0123456789", {}, {}, 1s);
  ASSERT_TRUE(written.ready());
  ASSERT_TRUE(eventually(loop, [&] { return server->watch().readable(); }));
  EXPECT_EQ(read_bytes(*server, 10), "0123456789");
  const std::uint64_t iterations = loop.iterations();
  loop.run_until([] { return false; }, Clock::now() + 50ms);
  EXPECT_LT(loop.iterations() - iterations, 10u);
}

TEST_F(Tls, WritesMuchToASlowReader) {
  shake(plain_policy(), trust(), {.buffer_bytes = 8 * 1024});
  ASSERT_TRUE(shaken());
  const std::string body = noise(2'000'000);
  std::string head = noise(100'000);
  std::string tail = noise(300);
  const std::string expected = head + body + tail;
  auto written = server->write(head, body, tail, 20s);
  EXPECT_FALSE(written.ready());
  head.assign(head.size(), '?');
  tail.assign(tail.size(), '?');
  EXPECT_EQ(read_bytes(*client, expected.size()), expected);
  ASSERT_TRUE(eventually(loop, [&] { return written.ready(); }));
  EXPECT_TRUE(written.take());
}

TEST_F(Tls, ReadsAndWritesAtTheSameTime) {
  shake(plain_policy(), trust(), {.buffer_bytes = 8 * 1024});
  const std::string down = noise(1'000'000);
  const std::string up = noise(1'000'001);
  auto a = server->write({}, down, {}, 20s);
  auto b = client->write({}, up, {}, 20s);
  std::string got_down;
  std::string got_up;
  ASSERT_TRUE(eventually(loop, [&] {
    got_down += read_some(*client);
    got_up += read_some(*server);
    return got_down.size() == down.size() && got_up.size() == up.size();
  }));
  EXPECT_EQ(got_down, down);
  EXPECT_EQ(got_up, up);
  ASSERT_TRUE(eventually(loop, [&] { return a.ready() && b.ready(); }));
}

TEST_F(Tls, GivesUpOnAPeerThatReadsNothing) {
  shake(plain_policy(), trust(), {.buffer_bytes = 8 * 1024});
  const std::string body = noise(3'000'000);
  auto written = server->write({}, body, {}, 50ms);
  ASSERT_TRUE(eventually(loop, [&] { return written.ready(); }));
  EXPECT_EQ(written.take().error().fault, Fault::write_timeout);
}

TEST_F(Tls, SendsAtOnceWhatFits) {
  shake(plain_policy(), trust(), {.buffer_bytes = 8 * 1024});
  EXPECT_EQ(server->write_now("hello"), 5u);
  EXPECT_EQ(read_bytes(*client, 5), "hello");
  const std::string much = noise(1'000'000);
  std::size_t sent = 0;
  for (std::size_t more = 1; more > 0; sent += more) {
    more = server->write_now(std::string_view(much).substr(sent));
  }
  EXPECT_GT(sent, 0u);
  EXPECT_LT(sent, much.size());
  auto rest = server->write({}, std::string_view(much).substr(sent), {}, 20s);
  EXPECT_EQ(read_bytes(*client, much.size()), much);
}

// ---- ends ---------------------------------------------------------------------------------------

TEST_F(Tls, DistinguishesCloseNotifyFromTruncation) {
  shake();
  auto written = client->write("last words", {}, {}, 1s);
  client->shutdown_write();
  EXPECT_EQ(read_bytes(*server, 10), "last words");
  EXPECT_EQ(read_to_end(*server), Socket::ReadStatus::end);
  auto answer = server->write("still here", {}, {}, 1s);
  EXPECT_EQ(read_bytes(*client, 10), "still here");

  shake();
  written = client->write("last words", {}, {}, 1s);
  shutdown(client->fd(), SHUT_WR);  // a third party ends the connection
  EXPECT_EQ(read_bytes(*server, 10), "last words");
  EXPECT_EQ(read_to_end(*server), Socket::ReadStatus::failure);

  shake();
  greet();         // unread bytes would make the close a reset
  client.reset();  // sends close_notify
  EXPECT_EQ(read_to_end(*server), Socket::ReadStatus::end);

  shake();
  client->reset();
  client.reset();  // a reset sends none
  EXPECT_EQ(read_to_end(*server), Socket::ReadStatus::failure);
}

TEST_F(Tls, FailsOnTamperedBytes) {
  shake();
  const std::string forged(
      "\x17\x03\x03\x00\x20"
      "0123456789abcdef0123456789abcdef",
      37);
  ASSERT_EQ(send(client->fd(), forged.data(), forged.size(), 0), 37);
  EXPECT_EQ(read_to_end(*server), Socket::ReadStatus::failure);
  auto written = server->write("x", {}, {}, 1s);
  ASSERT_TRUE(written.ready());
  EXPECT_FALSE(written.take());
}

TEST_F(Tls, ToleratesKeyUpdatesButNotAFlood) {
  // A client of plain OpenSSL, which can do what ours never does.
  const SocketPair ends = connected_pair();
  server = std::make_unique<Socket>(loop, ends.ours);
  Peer peer(loop, ends.theirs);  // wakes the loop
  const std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> context(SSL_CTX_new(TLS_client_method()),
                                                             SSL_CTX_free);
  const std::unique_ptr<SSL, void (*)(SSL*)> ssl(SSL_new(context.get()), SSL_free);
  SSL_set_fd(ssl.get(), ends.theirs);
  SSL_set_connect_state(ssl.get());
  accepting = server->accept_tls(plain_policy(), Clock::now() + 10s);
  ASSERT_TRUE(
      eventually(loop, [&] { return SSL_do_handshake(ssl.get()) == 1 && accepting.ready(); }));

  const auto update = [&] {
    return SSL_key_update(ssl.get(), SSL_KEY_UPDATE_REQUESTED) == 1 &&
           SSL_do_handshake(ssl.get()) == 1;
  };
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(update());
  ASSERT_EQ(SSL_write(ssl.get(), "still here", 10), 10);
  EXPECT_EQ(read_bytes(*server, 10), "still here");
  auto written = server->write("answer", {}, {}, 1s);
  std::string got(6, '\0');
  ASSERT_TRUE(eventually(loop, [&] { return SSL_read(ssl.get(), got.data(), 6) == 6; }));
  EXPECT_EQ(got, "answer");

  for (int i = 0; i < 100; ++i) ASSERT_TRUE(update());
  EXPECT_EQ(read_to_end(*server), Socket::ReadStatus::failure);
}

TEST_F(Tls, DistinguishesAnIdleConnectionFromAClosedOne) {
  shake();
  drain_loop(loop);
  ASSERT_TRUE(client->watch().readable());  // session tickets
  EXPECT_TRUE(client->is_idle_and_open(false));
  EXPECT_FALSE(client->watch().readable());
  EXPECT_TRUE(client->is_idle_and_open(true));

  auto written = server->write("x", {}, {}, 1s);
  EXPECT_FALSE(client->is_idle_and_open(true));  // with or without an event

  shake();
  EXPECT_TRUE(client->is_idle_and_open(true));
  server->shutdown_write();
  EXPECT_FALSE(client->is_idle_and_open(true));
}

// ---- files --------------------------------------------------------------------------------------

TEST_F(Tls, ReportsAnUnusableFileAndTheRemedy) {
  const auto expired = authority.issue("expired", {.common_name = "e", .ends_in = -60});
  const auto other = authority.issue("other", {.common_name = "o"});
  const std::string text = folder.write("text.pem", "not a certificate\n");
  const auto only_problem = [](const std::string& cert, const std::string& key,
                               const std::string& ca = {}) {
    const auto problems = TlsServerContext::check({.certificates = {{cert, key}}, .client_ca = ca});
    EXPECT_EQ(problems.size(), 1u);
    return problems.empty() ? TlsProblem{} : problems.front();
  };

  EXPECT_TRUE(TlsServerContext::check({.certificates = {{localhost.cert, localhost.key}}}).empty());

  auto problem = only_problem(folder.file("none.pem"), localhost.key);
  EXPECT_EQ(problem.key, "certificates[0].cert");
  EXPECT_THAT(problem.message, HasSubstr("none.pem': No such file"));
  EXPECT_FALSE(problem.warning);

  problem = only_problem(text, localhost.key);
  EXPECT_THAT(problem.message, HasSubstr("text.pem' holds no certificate in PEM form"));

  problem = only_problem(localhost.cert, text);
  EXPECT_EQ(problem.key, "certificates[0].key");
  EXPECT_THAT(problem.message, HasSubstr("holds no private key"));

  problem = only_problem(localhost.cert, other.key);
  EXPECT_THAT(problem.message, HasSubstr("does not belong to the certificate in"));
  EXPECT_THAT(problem.help, HasSubstr("the key that the certificate was made with"));

  problem = only_problem(localhost.cert, localhost.key, folder.file("none.pem"));
  EXPECT_EQ(problem.key, "client_ca");

  const auto crl_problem = [&](const std::string& crl) {
    const auto problems =
        TlsServerContext::check({.certificates = {{localhost.cert, localhost.key}},
                                 .client_ca = authority.file(),
                                 .client_crl = crl});
    EXPECT_EQ(problems.size(), 1u);
    return problems.empty() ? TlsProblem{} : problems.front();
  };
  problem = crl_problem(text);
  EXPECT_EQ(problem.key, "client_crl");
  EXPECT_THAT(problem.message, HasSubstr("text.pem' holds no revocation list in PEM form"));
  EXPECT_FALSE(problem.warning);
  const std::string whole = authority.revoke("whole.pem", {});
  std::stringstream list;
  list << std::ifstream(whole).rdbuf();
  problem = crl_problem(folder.write("cut.pem", list.str() + list.str().substr(0, 200)));
  EXPECT_THAT(problem.message, HasSubstr("revocation list 2 in '"));
  EXPECT_FALSE(problem.warning);
  problem = crl_problem(authority.revoke("old.pem", {}, -60));
  EXPECT_TRUE(problem.warning);
  EXPECT_THAT(problem.message, HasSubstr("is out of date since"));

  problem = only_problem(expired.cert, expired.key);
  EXPECT_TRUE(problem.warning);
  EXPECT_THAT(problem.message, HasSubstr("expired on"));

  const auto built =
      TlsServerContext::build({.certificates = {{localhost.cert, other.key}}}, "public");
  ASSERT_FALSE(built);
  EXPECT_THAT(built.error().detail, HasSubstr("listener public: tls.certificates[0].key: the key"));
  EXPECT_EQ(policy({.certificates = {{expired.cert, expired.key}}})->warnings().size(), 1u);

  const auto problems = TlsClientContext::check({.ca = text, .cert = text, .key = other.key});
  ASSERT_EQ(problems.size(), 2u);
  EXPECT_EQ(problems[0].key, "cert");
  EXPECT_EQ(problems[1].key, "ca");
}

}  // namespace
}  // namespace evenkeel
