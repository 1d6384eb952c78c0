#include "cli/manual.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <vector>

#include "cli/verb_list.h"

namespace evenkeel {
namespace {

/// A text as roff shows it, without its own meaning of any character.
std::string plain(std::string_view text) {
  std::string out;
  if (text.starts_with('.') || text.starts_with('\'')) out = "\\&";
  for (const char c : text) {
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
  }
  return out;
}

std::string bold(std::string_view text) { return "\\fB" + plain(text) + "\\fR"; }

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::string upper_case(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

std::string title(std::string_view page, int section, const ManualEdition& edition) {
  return fmt::format(".TH {} {} \"{}\" \"evenkeel {}\" evenkeel\n", page, section, edition.date,
                     edition.version);
}

/// Replaces what Markdown marks inside a line: code, emphasis, links, escapes.
std::string from_markdown(std::string_view line) {
  std::string out;
  for (std::size_t at = 0; at < line.size();) {
    const std::string_view rest = line.substr(at);
    const std::size_t code_end = rest.starts_with('`') ? rest.find('`', 1) : std::string::npos;
    const std::size_t strong_end = rest.starts_with("**") ? rest.find("**", 2) : std::string::npos;
    const std::size_t text_end = rest.starts_with('[') ? rest.find("](") : std::string::npos;
    if (code_end != std::string::npos) {
      out += bold(rest.substr(1, code_end - 1));
      at += code_end + 1;
    } else if (strong_end != std::string::npos) {
      out += bold(rest.substr(2, strong_end - 2));
      at += strong_end + 2;
    } else if (text_end != std::string::npos && rest.find(')', text_end) != std::string::npos) {
      out += from_markdown(rest.substr(1, text_end - 1));
      at += rest.find(')', text_end) + 1;
    } else {
      if (rest.starts_with("\\|")) ++at;
      out += at == 0 ? plain(line.substr(at, 1)) : plain("x" + std::string(1, line[at])).substr(1);
      ++at;
    }
  }
  return out;
}

/// The cells of a row of a Markdown table.
std::vector<std::string_view> cells_of(std::string_view row) {
  std::vector<std::string_view> cells;
  row.remove_prefix(2);
  while (!row.empty()) {
    const std::size_t end = std::min(row.find(" |"), row.size());
    cells.push_back(row.substr(0, end));
    row.remove_prefix(std::min(end + 3, row.size()));
  }
  return cells;
}

/// A row of the reference: key, value, default, meaning.
std::string key_entry(std::string_view row) {
  const auto cells = cells_of(row);
  if (cells.size() < 4) return "";
  const std::string fallback =
      cells[2].empty() ? "" : fmt::format("; default {}", from_markdown(cells[2]));
  return fmt::format(".TP\n{} ({}{})\n{}\n", from_markdown(cells[0]), from_markdown(cells[1]),
                     fallback, from_markdown(cells[3]));
}

/// Help is wrapped by hand: indented lines stay as they are, "Exit codes:" begins a paragraph.
std::string paragraphs(std::string_view text) {
  std::string out;
  bool verbatim = false;
  bool begins = true;
  for (const std::string_view line : lines_of(text)) {
    if (verbatim && !line.starts_with(' ')) out += line.empty() ? ".fi\n" : ".fi\n.PP\n";
    const bool begins_verbatim = !verbatim && line.starts_with(' ');
    verbatim = line.starts_with(' ');
    begins = begins || begins_verbatim || line.starts_with("Exit codes:") ||
             line.starts_with("Signals:");
    if (begins) out += ".PP\n";
    if (begins_verbatim) out += ".nf\n";
    begins = line.empty();
    if (!line.empty()) out += (verbatim ? plain(line) : from_markdown(line)) + "\n";
  }
  if (verbatim) out += ".fi\n";
  return out;
}

std::string option_entry(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : spellings(option)) names.push_back(bold(name));
  if (names.empty()) names.push_back("\\fI" + plain(option.get_name()) + "\\fR");
  const OptionValue value = value_of(option);
  std::string out = fmt::format(".TP\n{}", fmt::join(names, ", "));
  if (value.taken && !option.get_positional()) out += " \\fI" + plain(value.placeholder) + "\\fR";
  out += "\n" + from_markdown(option.get_description());
  if (!value.words.empty())
    out += fmt::format(": {}", plain(fmt::format("{}", fmt::join(value.words, ", "))));
  if (!option.get_default_str().empty())
    out += fmt::format(" (default {})", plain(option.get_default_str()));
  return out + "\n";
}

/// The section of a verb, without the options that it shares with others.
std::string verb_section(const ListedVerb& verb, const std::string& footer,
                         const std::vector<const CLI::Option*>& shared) {
  std::string usage = "evenkeel " + verb.words;
  std::string options;
  for (const CLI::Option* option : positional_options(verb)) {
    usage += " " + option->get_name();
    options += option_entry(*option);
  }
  for (const CLI::Option* option : named_options(verb)) {
    const bool known = std::ranges::any_of(
        shared, [&](const CLI::Option* other) { return other->get_name() == option->get_name(); });
    if (!known) options += option_entry(*option);
  }
  return fmt::format(".SS \"{}\"\n{}.\n{}{}", plain(usage), plain(verb.app->get_description()),
                     paragraphs(footer), options);
}

bool is_of_ctl(const ListedVerb& verb) { return verb.words.starts_with("ctl"); }

// docs/operations.md has the same of all verbs together.
constexpr std::string_view exit_status_and_environment = R"(.SH EXIT STATUS
.TP
.B 0
The command did what it was asked to do; a daemon drained.
.TP
.B 1
The file, the start, or the request to the daemon was refused.
.TP
.B 2
The command line is wrong.
.TP
.B 3
The deadline of a drain passed with requests in flight.
.TP
.B 5
The daemon did not answer.
.SH SIGNALS
.TP
.B SIGHUP
Reloads the file.
.TP
.BR SIGTERM , \ SIGQUIT , \ SIGINT
Drain and exit; a second one exits at once.
.TP
.B SIGUSR1
Reopens the access log.
.TP
.B SIGUSR2
Upgrades to the binary at the daemon's path.
.SH ENVIRONMENT
.TP
.BI ${ NAME }
in the configuration is a variable of the environment; see \fBevenkeel.yaml\fR(5).
.TP
.B OTEL_*
The variables of OpenTelemetry on the export of traces, where the file does not set them.
.TP
.B NOTIFY_SOCKET\fR, \fBWATCHDOG_USEC\fR, \fBLISTEN_FDS
Set by systemd.
)";

constexpr std::string_view files_and_links = R"(.SH FILES
.TP
.I /etc/evenkeel/evenkeel.yaml
The configuration file; see \fBevenkeel.yaml\fR(5).
.TP
.I /usr/share/doc/evenkeel
The documentation, sample configurations, and what Prometheus and Grafana can use.
.SH SEE ALSO
.BR evenkeel (1),
.BR evenkeel\-ctl (1),
.BR evenkeel.yaml (5)
)";

}  // namespace

std::string program_manual(const CLI::App& program, const ManualEdition& edition) {
  std::string out = title("EVENKEEL", 1, edition);
  out += ".SH NAME\nevenkeel \\- load balancer for AI inference\n";
  out += ".SH SYNOPSIS\n.B evenkeel\n[\\fIVERB\\fR] [\\fIOPTIONS\\fR]\n";
  out +=
      ".SH DESCRIPTION\nDistributes requests over inference servers by what each request costs.\n";
  out += "Without a verb, \\fBevenkeel\\fR serves its configuration file, as \\fBrun\\fR does.\n";
  out += ".SH VERBS\n";
  for (const ListedVerb& verb : listed_verbs(program)) {
    if (verb.words.empty() || is_of_ctl(verb)) continue;
    out += verb_section(verb, verb.app->get_footer(), {program.get_help_ptr()});
  }
  out += ".SS \"evenkeel ctl\"\nSee \\fBevenkeel\\-ctl\\fR(1).\n";
  out += exit_status_and_environment;
  out += files_and_links;
  return out;
}

std::string ctl_manual(const CLI::App& program, const ManualEdition& edition) {
  const CLI::App& ctl = *program.get_subcommand("ctl");
  std::string out = title("EVENKEEL\\-CTL", 1, edition);
  out += ".SH NAME\nevenkeel\\-ctl \\- query and change a running evenkeel\n";
  out += ".SH SYNOPSIS\n.B evenkeel ctl\n\\fICOMMAND\\fR [\\fIOPTIONS\\fR]\n";
  out += ".SH DESCRIPTION\nTalks to the admin listener of a running daemon.\n" +
         paragraphs(ctl.get_footer());
  out += ".SH OPTIONS\n";
  const auto options = named_options({"ctl", &ctl});
  for (const CLI::Option* option : options) out += option_entry(*option);
  out += ".SH COMMANDS\n";
  for (const CLI::App* command : verbs_below(ctl))
    out += verb_section({"ctl " + command->get_name(), command}, "", options);
  out += files_and_links;
  return out;
}

std::string config_manual(std::string_view reference, const ManualEdition& edition) {
  std::string out = title("EVENKEEL.YAML", 5, edition);
  out += ".SH NAME\nevenkeel.yaml \\- configuration of evenkeel\n.SH DESCRIPTION\n";
  bool code = false;
  bool begins = false;  // a paragraph
  for (const std::string_view line : lines_of(reference)) {
    if (line.empty() && !code) {
      begins = !out.ends_with("\"\n") && !out.ends_with("DESCRIPTION\n");
    } else if (line.starts_with("```")) {
      code = !code;
      out += code ? ".PP\n.nf\n" : ".fi\n";
    } else if (code) {
      out += plain(line) + "\n";
    } else if (line.starts_with("## ")) {
      out += fmt::format(".SH \"{}\"\n", upper_case(plain(line.substr(3))));
    } else if (line.starts_with("| `")) {
      out += key_entry(line);
    } else if (line.starts_with("- ")) {
      out += ".IP \\(bu 2\n" + from_markdown(line.substr(2)) + "\n";
    } else if (!line.starts_with("|") && !line.starts_with("# ")) {
      if (begins) out += ".PP\n";
      out += from_markdown(line.starts_with("  ") ? line.substr(2) : line) + "\n";
    }
    begins = begins && line.empty();
  }
  out += files_and_links;
  return out;
}

}  // namespace evenkeel
