#include "evenkeel/http/preferences.h"

#include <gtest/gtest.h>

namespace evenkeel {
namespace {

TEST(CodingPreferences, TakeACodingByItsNameOrByTheStar) {
  for (const char* field : {"gzip", "deflate, gzip", "GZIP;q=0.5", "br;q=1.0, gzip ; q=0.001", "*",
                            "x-gzip", "*;q=0, gzip"}) {
    EXPECT_GT(weight_of_coding(field, "gzip"), 0) << field;
  }
  for (const char* field :
       {"", "identity", "gzip;q=0", "gzip; q=0.000", "x-gzip2", "br", "*, gzip;q=0", "*;q=0"}) {
    EXPECT_EQ(weight_of_coding(field, "gzip"), 0) << field;
  }
}

TEST(CodingPreferences, HaveWeights) {
  EXPECT_EQ(weight_of_coding("zstd, gzip;q=0.5, *;q=0.25", "zstd"), 1);
  EXPECT_EQ(weight_of_coding("zstd, gzip;q=0.5, *;q=0.25", "gzip"), 0.5);
  EXPECT_EQ(weight_of_coding("zstd, gzip;q=0.5, *;q=0.25", "identity"), 0.25);
  EXPECT_EQ(weight_of_coding("gzip;q=x", "gzip"), 0);
}

TEST(TypePreferences, NameATypeOrItsFamily) {
  EXPECT_EQ(weight_of_named_type("text/html", "text/html"), 1);
  EXPECT_EQ(weight_of_named_type("application/json, TEXT/HTML;q=0.5", "text/html"), 0.5);
  EXPECT_EQ(weight_of_named_type("text/*;q=0.3, text/plain", "text/html"), 0.3);
  EXPECT_EQ(weight_of_named_type("text/*, text/html;q=0", "text/html"), 0);
  for (const char* field : {"", "*/*", "*", "text/htmlx", "text", "textual/*", "application/json"})
    EXPECT_EQ(weight_of_named_type(field, "text/html"), 0) << field;
}

}  // namespace
}  // namespace evenkeel
