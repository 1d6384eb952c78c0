#include "evenkeel/filter/error_pages.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/http/status.h"

namespace evenkeel {
namespace {

constexpr const char* browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";

class PagesOfErrors : public testing::Test {
 protected:
  PagesOfErrors() {
    request_.method = "POST";
    request_.path = "/v1/chat/completions";
    request_.info.identity.route = "a";
    request_.info.identity.routing = {.state = RouteState::routed, .route = 0};
  }

  static std::vector<RouteConfig> routes() {
    std::vector<RouteConfig> routes(2);
    routes[0].name = "a";
    routes[0].error_pages = {
        {.status = {503, 504}, .file = "sorry.html"},
        {.status = {429, 503}, .file = "busy.json", .content_type = "application/json"}};
    routes[1].name = "b";
    return routes;
  }

  /// The page, or "error" for the error as it was.
  std::string page(std::string_view accept, Fault fault = Fault::overloaded) {
    request_.info.outcome.fault = fault;
    Response response = error_response({.fault = fault}, error_format_of(request_));
    const auto before = response.fields.value("retry-after");
    pages_.apply(request_, accept, response);
    EXPECT_EQ(response.fields.value("retry-after"), before);
    EXPECT_TRUE(response.fields.value("x-evenkeel-reason"));
    EXPECT_EQ(response.fields.count(FieldId::content_type), 1U);
    auto read = response.body->read();
    const std::string body(read.take()->bytes);
    return body.find("\"error\"") == body.npos ? body : "error";
  }

  const std::vector<RouteConfig> routes_ = routes();
  const ErrorPageTexts texts_{{"sorry.html", "<p>sorry"}, {"busy.json", "{\"busy\":1}"}};
  const ErrorPages pages_{routes_, texts_};
  Request request_;
};

TEST_F(PagesOfErrors, AreForClientsThatNameTheirType) {
  for (const char* accept : {browser, "text/html", "text/*", "*/*;q=0.5, text/html;q=0.4",
                             "text/html, */*", "application/json;q=0.2, TEXT/HTML;q=0.3"}) {
    EXPECT_EQ(page(accept), "<p>sorry") << accept;
  }
  for (const char* accept :
       {"", "*/*", "application/json", "application/json, text/plain, */*", "text/event-stream",
        "application/json, text/html;q=0.9", "application/json, text/html", "text/html;q=0, */*"}) {
    EXPECT_EQ(page(accept), "error") << accept;
  }
}

TEST_F(PagesOfErrors, OfTheErrorsTypeAreForAllThatNameIt) {
  EXPECT_EQ(page("application/json", Fault::queue_full), "{\"busy\":1}");
  EXPECT_EQ(page("*/*", Fault::queue_full), "error");
}

TEST_F(PagesOfErrors, AreForTheirStatusesAndRoutes) {
  EXPECT_EQ(page("text/html", Fault::first_byte_timeout), "<p>sorry");
  EXPECT_EQ(page("text/html", Fault::connect_failed), "error");
  request_.info.identity.route = "b";
  request_.info.identity.routing.route = 1;
  EXPECT_EQ(page("text/html"), "error");
}

TEST_F(PagesOfErrors, AreNotForAnswersOfBackends) {
  Response response{.status = 503};
  response.fields.add("x-evenkeel-reason", "overloaded");  // behind another evenkeel
  response.body = make_body("theirs");
  pages_.apply(request_, "text/html", response);
  EXPECT_EQ(response.body->length(), 6U);
}

TEST_F(PagesOfErrors, AreNotForGrpc) {
  request_.fields.add("content-type", "application/grpc");
  request_.info.outcome.fault = Fault::overloaded;
  Response response = error_response({.fault = Fault::overloaded}, ErrorFormat::grpc);
  pages_.apply(request_, "text/html", response);
  EXPECT_EQ(response.body, nullptr);
}

}  // namespace
}  // namespace evenkeel
