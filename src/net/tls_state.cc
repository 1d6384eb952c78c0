#include "net/tls_state.h"

#include <openssl/sslerr.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "evenkeel/base/out_of_memory.h"
#include "net/certificate_contents.h"

namespace evenkeel {
namespace {

constexpr std::size_t record_size = 16 * 1024 - 128;   // of plaintext: four records fill a block
constexpr std::size_t record_room = record_size + 64;  // with header, nonce and tag
constexpr unsigned char alert_record = 0x15;
constexpr unsigned char handshake_record = 0x16;

/// Key updates, tickets and refused renegotiations cost far more than the bytes that trigger them,
/// and OpenSSL does not limit them: so many are free, then one per amount of data.
constexpr std::uint32_t free_control_messages = 32;
constexpr std::uint64_t data_per_control_message = 64 * 1024;

/// Where a record is assembled from several pieces.
constinit thread_local std::array<char, record_size> gathered{};

/// Removes the next record's plaintext from `pieces`; in place if one piece holds all of it.
std::string_view take_record(PlaintextPieces& pieces) {
  while (!pieces.head.empty() || !pieces.body.empty() || !pieces.tail.empty()) {
    std::string_view& front = !pieces.head.empty()   ? pieces.head
                              : !pieces.body.empty() ? pieces.body
                                                     : pieces.tail;
    const std::size_t total = pieces.size();
    if (front.size() >= record_size || front.size() == total) {
      const std::string_view record = front.substr(0, record_size);
      front.remove_prefix(record.size());
      return record;
    }
    break;
  }
  std::size_t filled = 0;
  for (std::string_view* piece : {&pieces.head, &pieces.body, &pieces.tail}) {
    const std::size_t count = std::min(piece->size(), record_size - filled);
    if (count == 0) continue;  // an empty view may be null, which memcpy does not allow
    std::memcpy(gathered.data() + filled, piece->data(), count);
    piece->remove_prefix(count);
    filled += count;
  }
  return {gathered.data(), filled};
}

}  // namespace

// ---- between OpenSSL and the descriptor ---------------------------------------------------------

BIO_METHOD* TlsState::bio_method() {
  static BIO_METHOD* const method = [] {
    BIO_METHOD* made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "evenkeel");
    BIO_meth_set_read(made, &TlsState::bio_read);
    BIO_meth_set_write(made, &TlsState::bio_write);
    BIO_meth_set_ctrl(made, &TlsState::bio_control);
    return made;
  }();
  return method;
}

long TlsState::bio_control(BIO*, int command, long, void*) {
  return command == BIO_CTRL_FLUSH ? 1 : 0;
}

int TlsState::bio_read(BIO* bio, char* place, int size) {
  auto& self = *static_cast<TlsState*>(BIO_get_data(bio));
  BIO_clear_retry_flags(bio);
  if (self.control_messages_ > free_control_messages + self.received_ / data_per_control_message)
      [[unlikely]] {
    self.end_ = End::broken;
    return -1;
  }
  if (!self.watch_.kernel_readable() && !self.probing_kernel_) {
    BIO_set_retry_read(bio);
    return -1;
  }
  ssize_t got;
  do {
    got = recv(self.watch_.fd(), place, static_cast<std::size_t>(size), 0);
  } while (got < 0 && errno == EINTR);
  if (got > 0) {
    if (got < size) {
      self.watch_.mark_drained();
      self.probing_kernel_ = false;
    }
    if (!self.first_byte_seen_) [[unlikely]] {
      self.first_byte_seen_ = true;
      // A server may start with an alert instead of a handshake.
      const auto type = static_cast<unsigned char>(place[0]);
      const bool alert = type == alert_record && self.client_ != nullptr;
      self.not_tls_ = type != handshake_record && !alert;
      if (self.not_tls_) return -1;
    }
    return static_cast<int>(got);
  }
  if (got == 0) {
    self.end_ = End::truncated;
    return 0;
  }
  if (errno == EAGAIN || errno == EWOULDBLOCK) {
    self.watch_.mark_not_readable();
    self.probing_kernel_ = false;
    BIO_set_retry_read(bio);
  } else {
    self.end_ = End::broken;
  }
  return -1;
}

/// Always accepts everything, so that OpenSSL never repeats a write.
int TlsState::bio_write(BIO* bio, const char* bytes, int size) {
  auto& self = *static_cast<TlsState*>(BIO_get_data(bio));
  BIO_clear_retry_flags(bio);
  const std::string_view whole(bytes, static_cast<std::size_t>(size));
  if (self.corked_) {
    if (self.out_.append(whole, Block::large)) return size;
    self.end_ = End::broken;
    return -1;
  }
  return self.send_now(whole);
}

/// Sends what is queued, then these bytes; queues what the kernel does not take.
int TlsState::send_now(std::string_view bytes) {
  std::array<iovec, 3> pieces;
  std::size_t count = 0;
  const std::size_t waiting = out_.size();
  for (const std::string_view piece : {out_.first(), out_.second(), bytes}) {
    if (piece.empty()) continue;
    pieces[count++] = {const_cast<char*>(piece.data()), piece.size()};
  }
  if (count == 0) return 0;
  ssize_t sent;
  do {
    if (count == 1) {
      sent = send(watch_.fd(), pieces[0].iov_base, pieces[0].iov_len, MSG_NOSIGNAL);
    } else {
      msghdr message{};
      message.msg_iov = pieces.data();
      message.msg_iovlen = count;
      sent = sendmsg(watch_.fd(), &message, MSG_NOSIGNAL);
    }
  } while (sent < 0 && errno == EINTR);
  if (sent < 0) {
    if (errno != EAGAIN && errno != EWOULDBLOCK) {
      end_ = End::broken;
      error_text_ = std::strerror(errno);
      return -1;
    }
    sent = 0;
  }
  const auto taken = static_cast<std::size_t>(sent);
  if (taken < waiting + bytes.size()) watch_.mark_not_writable();
  if (waiting > 0) out_.remove(std::min(taken, waiting));
  const std::string_view rest = bytes.substr(taken > waiting ? taken - waiting : 0);
  if (!rest.empty() &&
      !out_.append(rest, rest.size() <= Block::small ? Block::small : Block::large)) {
    end_ = End::broken;
    return -1;
  }
  return static_cast<int>(bytes.size());
}

/// True when the queue is empty.
bool TlsState::flush() {
  while (!out_.empty() && end_ != End::broken) {
    const std::size_t before = out_.size();
    send_now({});
    if (out_.size() == before) break;
  }
  return out_.empty();
}

void TlsState::on_message(int sent, int, int type, const void*, std::size_t, SSL* ssl, void*) {
  TlsState& self = of(ssl);
  const bool counts = sent != 0 ? type == SSL3_RT_ALERT : type == SSL3_RT_HANDSHAKE;
  if (counts && self.established_) ++self.control_messages_;
}

// ---- handshake ----------------------------------------------------------------------------------

TlsState::TlsState(Watch& watch, ssl_ctx_st* context) : watch_(watch), ssl_(SSL_new(context)) {
  if (ssl_ == nullptr) out_of_memory();
  BIO* bio = BIO_new(bio_method());
  if (bio == nullptr) out_of_memory();
  BIO_set_data(bio, this);
  BIO_set_init(bio, 1);
  SSL_set_bio(ssl_.get(), bio, bio);
  SSL_set_app_data(ssl_.get(), this);
}

TlsState::~TlsState() {
  // A close without an alert does not invalidate the session.
  if (established_) SSL_set_shutdown(ssl_.get(), SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN);
}

TlsState::Step TlsState::handshake() {
  if (!flush()) return end_ == End::broken ? Step::failed : Step::wants_write;
  if (established_) return Step::done;
  corked_ = true;
  ERR_clear_error();
  const int result = SSL_do_handshake(ssl_.get());
  corked_ = false;
  if (result == 1) {
    established_ = true;
    note_success();
    ERR_clear_error();
    watch_.set_buffered(SSL_has_pending(ssl_.get()) == 1);
    if (flush()) return Step::done;
    return end_ == End::broken ? Step::failed : Step::wants_write;
  }
  const int problem = SSL_get_error(ssl_.get(), result);
  if (problem == SSL_ERROR_WANT_READ && end_ == End::none) {
    ERR_clear_error();
    return flush() ? Step::wants_read : Step::wants_write;
  }
  note_failure(result);
  flush();  // the alert, as far as the kernel takes it
  return Step::failed;
}

void TlsState::note_success() {
  SSL* ssl = ssl_.get();
  const unsigned char* protocol = nullptr;
  unsigned protocol_size = 0;
  SSL_get0_alpn_selected(ssl, &protocol, &protocol_size);
  const std::string_view chosen(reinterpret_cast<const char*>(protocol), protocol_size);
  info_.alpn = chosen == "h2" ? "h2" : chosen == "http/1.1" ? "http/1.1" : "";
  info_.version = SSL_get_version(ssl);
  info_.cipher = SSL_get_cipher_name(ssl);
  info_.resumed = SSL_session_reused(ssl) == 1;
  outcome_ = info_.resumed ? TlsOutcome::resumed : TlsOutcome::ok;
  const X509* certificate = SSL_get0_peer_certificate(ssl);
  if (certificate == nullptr) return;
  info_.verified =
      SSL_get_verify_result(ssl) == X509_V_OK && (SSL_get_verify_mode(ssl) & SSL_VERIFY_PEER) != 0;
  if (server_ == nullptr) return;  // a backend's certificate is verified, not recorded
  const OwnedBio text(BIO_new(BIO_s_mem()));
  X509_NAME_print_ex(text.get(), X509_get_subject_name(certificate), 0,
                     XN_FLAG_RFC2253 & ~ASN1_STRFLGS_ESC_MSB);
  char* bytes = nullptr;
  const long size = BIO_get_mem_data(text.get(), &bytes);
  if (size > 0) info_.certificate_subject.assign(bytes, static_cast<std::size_t>(size));
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned digest_size = 0;
  if (X509_digest(certificate, EVP_sha256(), digest.data(), &digest_size) == 1) {
    constexpr char digits[] = "0123456789abcdef";
    for (unsigned i = 0; i < digest_size; ++i) {
      info_.certificate_hash += digits[digest[i] >> 4];
      info_.certificate_hash += digits[digest[i] & 15];
    }
  }
  if (info_.verified) info_.certificate_names = client_names_of(certificate);
}

void TlsState::note_failure(int) {
  const auto fail = [this](TlsOutcome outcome, std::string why) {
    outcome_ = outcome;
    error_text_ = std::move(why);
    ERR_clear_error();
  };
  const unsigned long code = ERR_peek_error();
  const int reason = ERR_GET_REASON(code);
  if (not_tls_) return fail(TlsOutcome::not_tls, "the peer does not speak TLS");
  const long verdict = SSL_get_verify_result(ssl_.get());
  if (code != 0 && ERR_GET_LIB(code) == ERR_LIB_SSL && reason == SSL_R_CERTIFICATE_VERIFY_FAILED) {
    if (verdict == X509_V_ERR_HOSTNAME_MISMATCH) {
      return fail(TlsOutcome::certificate, "host name does not match " + expected_name_);
    }
    if (verdict == X509_V_ERR_IP_ADDRESS_MISMATCH) {
      return fail(TlsOutcome::certificate, "IP address does not match " + expected_name_);
    }
    return fail(TlsOutcome::certificate, X509_verify_cert_error_string(verdict));
  }
  if (code == 0) {
    if (end_ == End::none) end_ = End::broken;
    return fail(TlsOutcome::closed, end_ == End::truncated
                                        ? "the peer closed the connection during the TLS handshake"
                                        : "the connection broke during the TLS handshake");
  }
  TlsOutcome outcome = TlsOutcome::error;
  if (ERR_GET_LIB(code) == ERR_LIB_SSL) {
    switch (reason) {
      case SSL_R_HTTP_REQUEST:
      case SSL_R_HTTPS_PROXY_REQUEST: outcome = TlsOutcome::not_tls; break;
      case SSL_R_WRONG_VERSION_NUMBER:
      case SSL_R_UNSUPPORTED_PROTOCOL:
      case SSL_R_VERSION_TOO_LOW:
      case SSL_R_TLSV1_ALERT_PROTOCOL_VERSION: outcome = TlsOutcome::version; break;
      case SSL_R_NO_SHARED_CIPHER:
      case SSL_R_NO_SUITABLE_KEY_SHARE:
      case SSL_R_NO_SUITABLE_GROUPS:
      case SSL_R_NO_SHARED_GROUPS:
      case SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM:
      case SSL_R_NO_SHARED_SIGNATURE_ALGORITHMS: outcome = TlsOutcome::cipher; break;
      case SSL_R_NO_APPLICATION_PROTOCOL:
      case SSL_R_TLSV1_ALERT_NO_APPLICATION_PROTOCOL: outcome = TlsOutcome::alpn; break;
      case SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE: outcome = TlsOutcome::certificate; break;
      default: outcome = reason > SSL_AD_REASON_OFFSET ? TlsOutcome::alert : TlsOutcome::error;
    }
  }
  fail(outcome, openssl_error_text());
}

void TlsState::expire() {
  outcome_ = TlsOutcome::timeout;
  error_text_ = "the TLS handshake did not finish in time";
}

// ---- data ---------------------------------------------------------------------------------------

/// What a failed read or write means for the connection.
TlsState::End TlsState::end_of(int result) {
  const int problem = SSL_get_error(ssl_.get(), result);
  if (problem == SSL_ERROR_WANT_READ) return end_;
  if (problem == SSL_ERROR_ZERO_RETURN) return End::close_notify;
  if (end_ != End::none) {
    ERR_clear_error();
    return end_;
  }
  error_text_ = openssl_error_text();
  return End::broken;
}

Socket::Read TlsState::read_some(char* place, std::size_t size) {
  std::size_t total = 0;
  while (end_ == End::none && total < size) {
    ERR_clear_error();
    std::size_t got = 0;
    const int result = SSL_read_ex(ssl_.get(), place + total, size - total, &got);
    if (result != 1) {
      end_ = end_of(result);
      watch_.set_buffered(end_ != End::none);
      break;
    }
    total += got;
    received_ += got;
    const bool held = SSL_has_pending(ssl_.get()) == 1;
    watch_.set_buffered(held);
    if (!held && !watch_.kernel_readable()) break;
  }
  if (total > 0) return {Socket::ReadStatus::bytes, total};
  switch (end_) {
    case End::none: return {Socket::ReadStatus::would_block};
    case End::close_notify: return {Socket::ReadStatus::end};
    case End::truncated:
    case End::broken: break;
  }
  return {Socket::ReadStatus::failure};
}

TlsState::Step TlsState::push(PlaintextPieces& pieces) {
  if (!flush()) return end_ == End::broken ? Step::failed : Step::wants_write;
  while (pieces.size() > 0) {
    if (end_ == End::broken) return Step::failed;
    const std::string_view record = take_record(pieces);
    const bool last = pieces.size() == 0 || out_.size() + record_room > Block::large;
    ERR_clear_error();
    corked_ = !last;
    std::size_t taken = 0;
    const int result = SSL_write_ex(ssl_.get(), record.data(), record.size(), &taken);
    corked_ = false;
    if (result != 1) {
      const End end = end_of(result);
      end_ = end == End::none ? End::broken : end;
      return Step::failed;
    }
    if (last && !out_.empty()) return Step::wants_write;
  }
  return Step::done;
}

std::size_t TlsState::write_now(std::string_view bytes) {
  if (!flush() || end_ == End::broken) return 0;
  PlaintextPieces pieces{.head = bytes.substr(0, record_size)};
  const std::size_t size = pieces.head.size();
  return push(pieces) == Step::failed ? 0 : size;
}

bool TlsState::is_idle_and_open() {
  if (end_ != End::none) return false;
  probing_kernel_ = true;
  char byte;
  const Socket::Read got = read_some(&byte, 1);
  probing_kernel_ = false;
  return got.status == Socket::ReadStatus::would_block;
}

void TlsState::send_close_notify() {
  if (!established_ || abandoned_ || close_notify_sent_ || end_ == End::broken) return;
  close_notify_sent_ = true;
  ERR_clear_error();
  SSL_shutdown(ssl_.get());
  ERR_clear_error();
  flush();
}

}  // namespace evenkeel
