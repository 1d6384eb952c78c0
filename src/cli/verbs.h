// The verbs as CLI11 knows them: options, help, and what runs. One function per verb.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

#include "evenkeel/cli/ctl.h"
#include "evenkeel/cli/top.h"

namespace evenkeel {

/// One run of the program. Outlives the parser.
struct Invocation {
  std::string version;
  int exit_code = 0;  ///< set by the verb that ran
};

void add_run_verb(CLI::App& app, Invocation& invocation);
void add_check_verb(CLI::App& app, Invocation& invocation);
void add_config_verb(CLI::App& app, Invocation& invocation);
void add_explain_verb(CLI::App& app, Invocation& invocation);
void add_import_verb(CLI::App& app, Invocation& invocation);
void add_key_verb(CLI::App& app, Invocation& invocation);
void add_quick_verb(CLI::App& app, Invocation& invocation);
void add_ctl_verb(CLI::App& app, Invocation& invocation,
                  std::function<int(const CtlOptions&)> run = run_ctl);
void add_top_verb(CLI::App& app, Invocation& invocation,
                  std::function<int(const TopOptions&)> run = run_top);
void add_sim_verb(CLI::App& app, Invocation& invocation);
void add_load_verb(CLI::App& app, Invocation& invocation);
void add_demo_verb(CLI::App& app, Invocation& invocation);
void add_replay_verb(CLI::App& app, Invocation& invocation);
void add_usage_verb(CLI::App& app, Invocation& invocation);
void add_audit_verb(CLI::App& app, Invocation& invocation);
void add_picker_verb(CLI::App& app, Invocation& invocation);
void add_version_verb(CLI::App& app, Invocation& invocation);
void add_completion_verb(CLI::App& app, Invocation& invocation);
void add_manual_verb(CLI::App& app, Invocation& invocation);

/// Adds every verb of the program.
void add_verbs(CLI::App& app, Invocation& invocation);

}  // namespace evenkeel
