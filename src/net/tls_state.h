// The TLS state of a Socket.
//
// OpenSSL reads from the descriptor directly into its own buffer, and only after the loop reported
// input. A single record goes from its buffer directly to the kernel; several in a row are
// collected in a block and sent together. OpenSSL never sees a full socket: what the kernel does
// not take is queued here. An idle connection holds no buffer.
#pragma once

#include <memory>
#include <string_view>

#include "evenkeel/base/loop.h"
#include "evenkeel/net/socket.h"
#include "evenkeel/net/tls.h"
#include "net/ciphertext_buffer.h"
#include "net/openssl.h"

namespace evenkeel {

/// The unsent rest of a write.
struct PlaintextPieces {
  std::string_view head;
  std::string_view body;
  std::string_view tail;

  std::size_t size() const { return head.size() + body.size() + tail.size(); }
};

class TlsState {
 public:
  static std::unique_ptr<TlsState> accepting(Watch& watch,
                                             std::shared_ptr<const TlsServerContext> server);
  static std::unique_ptr<TlsState> connecting(Watch& watch,
                                              std::shared_ptr<const TlsClientContext> client,
                                              const std::string& server_name, AlpnOffer offer,
                                              std::shared_ptr<TlsSessionCache> sessions);
  TlsState(const TlsState&) = delete;
  TlsState& operator=(const TlsState&) = delete;
  ~TlsState();

  enum class Step : std::uint8_t { done, wants_read, wants_write, failed };
  Step handshake();
  /// Ends the handshake because it took too long.
  void expire();
  /// How the handshake ended, and the reason as text.
  TlsOutcome outcome() const { return outcome_; }
  const std::string& error_text() const { return error_text_; }
  const TlsConnectionInfo& info() const { return info_; }

  Socket::Read read_some(char* place, std::size_t size);
  /// Encrypts and sends until the kernel has everything or takes no more (`wants_write`). Removes
  /// from `pieces` what is encrypted.
  Step push(PlaintextPieces& pieces);
  std::size_t write_now(std::string_view bytes);
  /// Checks an idle connection, also in the kernel; reads what is not data, such as tickets.
  bool is_idle_and_open();
  /// Sends close_notify, at most once.
  void send_close_notify();
  /// Sends nothing more: the connection is about to be reset.
  void abandon() { abandoned_ = true; }

 private:
  enum class End : std::uint8_t { none, close_notify, truncated, broken };

  TlsState(Watch& watch, ssl_ctx_st* context);

  static int bio_read(BIO* bio, char* place, int size);
  static int bio_write(BIO* bio, const char* bytes, int size);
  static long bio_control(BIO* bio, int command, long number, void* pointer);
  static BIO_METHOD* bio_method();

  static TlsState& of(SSL* ssl) { return *static_cast<TlsState*>(SSL_get_app_data(ssl)); }
  static int on_client_hello(SSL* ssl, int* alert, void* server);
  static int on_alpn(SSL* ssl, const unsigned char** chosen, unsigned char* chosen_size,
                     const unsigned char* offered, unsigned offered_size, void* server);
  static int on_ticket_key(SSL* ssl, unsigned char* name, unsigned char* iv, EVP_CIPHER_CTX* cipher,
                           EVP_MAC_CTX* mac, int sealing);
  static int on_new_ticket(SSL* ssl, void* server);
  static SSL_TICKET_RETURN on_ticket(SSL* ssl, SSL_SESSION* session, const unsigned char* name,
                                     std::size_t name_size, SSL_TICKET_STATUS status, void* server);
  static void on_message(int sent, int version, int type, const void* bytes, std::size_t size,
                         SSL* ssl, void* unused);
  static int on_new_session(SSL* ssl, SSL_SESSION* session);
  friend class TlsServerContext;
  friend class TlsClientContext;
  friend OwnedContext make_context(const SSL_METHOD* method, TlsVersion min_version);

  bool flush();
  int send_now(std::string_view bytes);
  void note_failure(int result);
  void note_success();
  End end_of(int result);

  Watch& watch_;
  OwnedSsl ssl_;
  std::shared_ptr<const TlsServerContext> server_;
  std::shared_ptr<const TlsClientContext> client_;
  std::shared_ptr<TlsSessionCache> sessions_;
  CiphertextBuffer out_;
  TlsConnectionInfo info_;
  std::string error_text_;
  std::string expected_name_;
  TlsOutcome outcome_ = TlsOutcome::error;
  End end_ = End::none;
  std::uint64_t received_ = 0;          // bytes of data
  std::uint32_t control_messages_ = 0;  // TLS messages without data since the handshake
  bool established_ = false;
  bool first_byte_seen_ = false;
  bool not_tls_ = false;
  bool corked_ = false;          // collect records in `out_`
  bool probing_kernel_ = false;  // read from the kernel even without an event
  bool abandoned_ = false;
  bool close_notify_sent_ = false;
};

}  // namespace evenkeel
