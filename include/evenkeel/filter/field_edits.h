// What routes change in the header fields of requests and of answers.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "evenkeel/config/config.h"
#include "evenkeel/filter/by_route.h"
#include "evenkeel/http/message.h"
#include "evenkeel/stats/access_log_format.h"

namespace evenkeel {

/// The changes of one route, compiled. Immutable; outlives the fields that it has changed.
class FieldEditor {
 public:
  explicit FieldEditor(const FieldEdits& edits);

  /// Removes, sets and adds fields. A value of which nothing is left because what it names is not
  /// known is not written. Control characters of clients become `?`.
  void apply(Fields& fields, const Request& request) const;

 private:
  struct Write {
    std::string name;
    std::vector<AccessLogLayout::Part> parts;
    bool replaces;  // the fields of this name
  };
  static Write write_of(const std::string& name, const std::string& value, bool replaces);

  std::vector<std::string> removed_;
  std::vector<Write> writes_;
};

/// Changes the fields that backends get. Never waits.
class RequestFieldsFilter final : public Filter {
 public:
  /// The routes outlive the filter.
  explicit RequestFieldsFilter(const std::vector<RouteConfig>& routes);
  bool is_needed() const { return !editors_.empty(); }
  Task<Result<Response>> handle(Request& request, Handler& next) override;

 private:
  ByRoute<FieldEditor> editors_;
};

/// Changes the fields that clients get, of backends' answers and of evenkeel's own.
class ResponseFieldsFilter final : public Filter {
 public:
  /// The routes outlive the filter.
  explicit ResponseFieldsFilter(const std::vector<RouteConfig>& routes);
  bool is_needed() const { return !editors_.empty(); }
  Task<Result<Response>> handle(Request& request, Handler& next) override;

 private:
  ByRoute<FieldEditor> editors_;
};

}  // namespace evenkeel
