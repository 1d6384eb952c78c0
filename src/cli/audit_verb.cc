// The verb `audit`.
#include <fmt/format.h>

#include <memory>
#include <string>
#include <vector>

#include "cli/check.h"
#include "cli/verbs.h"
#include "evenkeel/audit/audit_verify.h"
#include "evenkeel/base/exit_codes.h"
#include "evenkeel/config/named_files.h"

namespace evenkeel {
namespace {

struct VerifyOptions {
  std::vector<std::string> files;
  std::string key_file;
};

std::string summary_of(const AuditVerdict& verdict) {
  if (verdict.records == 0) return "no record\n";
  return fmt::format("the chain holds: {} record{}, {} to {}, from {} to {}\nlast hash: {}\n",
                     verdict.records, verdict.records == 1 ? "" : "s", verdict.first, verdict.last,
                     verdict.first_time, verdict.last_time, verdict.last_hash);
}

CommandOutput verify_audit(const VerifyOptions& options) {
  std::string key;
  if (!options.key_file.empty()) {
    auto read = read_audit_key(options.key_file);
    if (!read) {
      return {exit_failed, {}, fmt::format("{}: {}\n", options.key_file, read.error().detail)};
    }
    key = std::move(*read);
  }
  const AuditVerdict verdict = verify_audit_files(options.files, key);
  CommandOutput output;
  for (const std::string& note : verdict.notes) output.err += note + "\n";
  if (!verdict.problem.empty()) {
    output.exit_code = exit_failed;
    output.err += verdict.problem + "\n";
    if (verdict.records > 0) {
      output.err += fmt::format("the chain holds up to record {}\n", verdict.last);
    }
    return output;
  }
  output.out = summary_of(verdict);
  return output;
}

}  // namespace

void add_audit_verb(CLI::App& app, Invocation& invocation) {
  auto* verb = app.add_subcommand("audit", "Check audit logs");
  verb->require_subcommand(1);
  auto* verify = verb->add_subcommand("verify", "Tell whether the chain of records holds");
  auto options = std::make_shared<VerifyOptions>();
  verify->add_option("files", options->files, "Files of records, the oldest first")
      ->required()
      ->type_name("FILE");
  verify
      ->add_option("--key-file", options->key_file,
                   "The key of the hashes, as `audit.key_file` names it")
      ->type_name("FILE");
  verify->footer(
      "Records that were changed, removed, added or moved are found, but not a file that ends\n"
      "early: compare its last hash or number with one that was noted elsewhere. Without a key,\n"
      "an account that may write the file can make a new chain.\n"
      "Exit codes: 0 the chain holds, 1 it is broken or a file cannot be read, 2 usage.");
  verify->callback(
      [options, &invocation] { invocation.exit_code = print_output(verify_audit(*options)); });
}

}  // namespace evenkeel
