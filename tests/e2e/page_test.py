"""The live page in a real browser: it shows what happens, changes only what it may, and asks nothing of other origins."""

import json
import threading
import unittest

import case
from browser import CHROMIUM, Browser
from ports import free_port
from process import SANITIZED
from slowness import slowness
from stream import exchange
from stream_proxy import StreamProxy

TOKEN = "correct-horse-battery"
HOSTILE = '"><img src=x onerror="window.hacked=1"><script>window.hacked=1</script>'

# The contrast (WCAG 2) of each text of the page that is below 4.5, as [text, ratio].
LOW_CONTRAST = """(() => {
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", {willReadFrequently: true});
  const rgb = (color) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const luminance = (color) => {
    const [r, g, b] = color.map((each) => each / 255).map((each) => each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    for (let each = element; each; each = each.parentElement) {
      const color = rgb(getComputedStyle(each).backgroundColor);
      if (color[3] === 255) return color;
    }
  };
  const low = [];
  for (const element of document.querySelectorAll("body *")) {
    const text = [...element.childNodes].filter((node) => node.nodeType === Node.TEXT_NODE).map((node) => node.data.trim()).join("");
    if (!text || !element.checkVisibility()) continue;
    const [a, b] = [rgb(getComputedStyle(element).color), behind(element)].map(luminance);
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) low.push([text, ratio]);
  }
  return low;
})()"""

# Frames per second while the table and the heat map are scrolled for a second.
FRAMES = """new Promise((done) => {
  const begin = performance.now();
  let frames = 0;
  const next = (now) => {
    ++frames;
    document.getElementById("table").scrollTop += 40;
    document.querySelector(".map").scrollTop += 10;
    if (now - begin < 1000) requestAnimationFrame(next); else done(frames * 1000 / (now - begin));
  };
  requestAnimationFrame(next);
})"""


# How many of 8 pictures of the flow, 200 ms apart, differ from the one before.
MOVES = """new Promise((done) => {
  let moved = 0, left = 8, before = document.querySelector("#flow").toDataURL();
  const timer = setInterval(() => {
    const now = document.querySelector("#flow").toDataURL();
    moved += now !== before;
    before = now;
    if (--left === 0) { clearInterval(timer); done(moved); }
  }, 200);
})"""

# How many pixels of the flow have the color of an entry of its legend.
DRAWN = """(() => {{
  const flow = document.querySelector("#flow");
  const color = getComputedStyle(document.querySelector("#flow-legend {}")).backgroundColor.match(/[\\d.]+/g).map(Number);
  const copy = new OffscreenCanvas(flow.width, flow.height).getContext("2d", {{willReadFrequently: true}});
  copy.drawImage(flow, 0, 0);
  const {{data}} = copy.getImageData(0, 0, flow.width, flow.height);
  let drawn = 0;
  for (let i = 0; i < data.length; i += 4) drawn += data[i] === color[0] && data[i + 1] === color[1] && data[i + 2] === color[2] && data[i + 3] === 255;
  return drawn;
}})()"""


@unittest.skipUnless(CHROMIUM, "no chromium here (./dev setup installs it)")
class Page(case.Case):
    @classmethod
    def setUpClass(cls):
        cls.browser = Browser()
        cls.addClassCleanup(cls.browser.close)

    def show(self, daemon, fragment="", at=None):
        """Opens the page of the daemon, or of what is `at` an address before it. At the end it must have had no problem, and
        have asked nothing of others."""
        browser = self.browser
        browser.events.clear()
        origin = f"http://{at or daemon.admin}/"
        browser.open(f"{origin}ui/{fragment}")

        def check():
            self.assertEqual(browser.problems(), [])
            requested = browser.requested()
            self.assertGreater(len(requested), 5)
            self.assertEqual([url for url in requested if not url.startswith(origin)], [])
            browser.open("about:blank")

        self.addCleanup(check)
        return browser

    def live(self, daemon, fragment=""):
        browser = self.show(daemon, fragment)
        browser.wait('document.querySelector("#connection")?.textContent === "live"')
        browser.wait('document.querySelector("tbody .name") !== null')
        return browser

    def with_token(self, *backends, token_for="changes"):
        token = self.folder() + "/token"
        with open(token, "w", encoding="utf-8") as file:
            file.write(TOKEN)
        daemon = self.start_daemon(*backends, admin={"address": "127.0.0.1:0", "token_file": token, "token_for": token_for})
        ask = daemon.ask_admin
        daemon.ask_admin = lambda *args, fields=(), **kwargs: ask(
            *args, fields=[*fields, ("authorization", "Bearer " + TOKEN)], **kwargs)
        return daemon

    def use_token(self, browser):
        if browser.evaluate('document.querySelector("#token-form").hidden'):
            browser.click("#token-open")
        browser.click("#token")
        browser.type(TOKEN)
        browser.press("Enter", text="\r")

    def test_values_change_as_requests_pass(self):
        servers = self.simulators("--model", "llama", count=2)
        daemon = self.start_daemon(*servers.addresses, pool={"picker": "expected-time", "inspect": True, "engine": "vllm",
                                                              "debug_headers": True})
        browser = self.live(daemon)
        chat = json.dumps({"model": "llama", "stream": True, "max_tokens": 64, "stream_options": {"include_usage": True},
                           "messages": [{"role": "user", "content": "hello"}]})
        stop = threading.Event()

        def load():
            while not stop.is_set():
                exchange(daemon.address, "POST", "/v1/chat/completions",
                         [("content-type", "application/json"), ("x-evenkeel-explain", "1")], chat.encode())
                stop.wait(0.2)  # the decisions about 128 requests are kept

        sending = [self.spawn(load) for _ in range(4)]
        try:
            legend = '[...document.querySelectorAll("figure")].find((each) => each.textContent.includes("{}")).querySelector("b").textContent'
            browser.wait(f'parseFloat({legend.format("Requests per second")}) > 0')
            browser.wait(f'parseFloat({legend.format("First token")}) > 0')
            browser.wait(f'parseFloat({legend.format("Output tokens")}) > 0')
            browser.wait('parseFloat(document.querySelector("tbody tr:nth-child(2) td:nth-child(11)").textContent) > 0')
            browser.wait('document.querySelector("#pools").textContent.includes("CV ")')
            browser.evaluate('document.querySelector("#requests").scrollIntoView()')
            browser.wait('document.querySelectorAll("#request-list .waterfall").length > 5')
            browser.click("#request-list .name")
            browser.wait('document.querySelector("#decision").textContent.includes("predicted first token")')
            self.assertEqual(browser.evaluate('document.querySelectorAll("#decision tbody tr").length'), 2)
        finally:
            stop.set()
            for each in sending:
                each.join()

    def test_a_drain_by_click_needs_the_token(self):
        backend = self.backend()
        daemon = self.with_token(backend)
        browser = self.live(daemon)
        browser.wait('document.querySelector("#access").textContent === "read only"')
        self.assertEqual(browser.evaluate('[...document.querySelectorAll("td.action button")].filter((each) => each.checkVisibility()).length'), 0)
        refused = browser.evaluate(f'fetch("/api/v1/backends/{backend.address}/drain", {{method: "POST"}}).then((reply) => reply.status)')
        self.assertEqual(refused, 401)

        self.use_token(browser)
        browser.wait('document.querySelector("#access").textContent === "changes allowed"')
        self.assertEqual(browser.evaluate("document.querySelector('#token').value"), "")
        browser.wait('document.querySelector("td.action button").textContent === "Drain" && document.querySelector("td.action button").checkVisibility()')
        browser.click("td.action button")
        self.eventually(lambda: daemon.backend(backend.address)["state"] == "draining")
        browser.wait('document.querySelector("td.action button").textContent === "Undrain"')
        browser.wait('document.querySelector("#events").textContent.includes("up → draining: drained by an operator")')
        browser.click("td.action button")
        self.eventually(lambda: daemon.backend(backend.address)["state"] == "up")

        browser.click("td .name")
        browser.evaluate('document.querySelector("#card input").value = 7')
        browser.click("#card form button")
        browser.wait('document.querySelector("#card dl").textContent.includes("weight7")')
        self.assertEqual(daemon.backend(backend.address)["weight"], 7)

    def test_where_reads_need_the_token_nothing_is_shown_without_it(self):
        daemon = self.with_token(self.backend(), token_for="all")
        browser = self.show(daemon)
        browser.wait('document.querySelector("#connection")?.textContent === "refused"')
        browser.wait('!document.querySelector("#token-form").hidden')
        self.assertEqual(browser.evaluate('document.querySelector("tbody .name")'), None)
        self.use_token(browser)
        browser.wait('document.querySelector("tbody .name") !== null')
        self.assertEqual(browser.evaluate("document.cookie + JSON.stringify(localStorage)").count(TOKEN), 0)

    def test_a_kill_shows_within_two_seconds(self):
        stays, dies = self.simulators(), self.simulators()
        daemon = self.start_daemon(stays.addresses[0], dies.addresses[0])
        browser = self.live(daemon)
        stop = threading.Event()

        def load():
            while not stop.is_set():
                exchange(daemon.address, "GET", "/v1/models")
                stop.wait(0.05)

        sending = self.spawn(load)
        try:
            browser.wait('parseFloat(document.querySelector("tbody tr:nth-child(3) td:nth-child(11)").textContent) > 0')
            browser.evaluate("""void (window.down = new Promise((done) => new MutationObserver(() => {
                if (document.querySelector("tr.state-down")) done(performance.now());
            }).observe(document.querySelector("#table"), {subtree: true, attributes: true, childList: true})))""")
            killed = browser.evaluate("performance.now()")
            dies.kill()
            self.assert_within((browser.evaluate("window.down") - killed) / 1000, 2)
            browser.wait('document.querySelector("#pools").textContent.includes("1 of 2 up")')
        finally:
            stop.set()
            sending.join()

    def test_it_connects_again_after_a_restart(self):
        backend, admin = self.backend(), f"127.0.0.1:{free_port()}"
        first = self.start_daemon(backend, admin={"address": admin})
        browser = self.live(first)
        self.assertEqual(first.stop(), 0)
        browser.wait('document.querySelector("#connection").textContent === "disconnected"')
        self.assertEqual(browser.evaluate('document.querySelector("#main").className'), "stale")
        second = self.start_daemon(backend, backend.address.replace("127.0.0.1", "localhost"), admin={"address": admin})
        browser.wait('document.querySelector("#connection").textContent === "live"')
        browser.wait('document.querySelector("#count").textContent === "2"')
        self.assertTrue(second.running())

    def test_the_past_is_there_when_the_page_is_opened(self):
        backend = self.backend()
        daemon = self.start_daemon(backend)
        self.eventually(lambda: json.loads(daemon.ask_admin("/api/v1/history").body)["daemon"]["in_flight"].count(0) >= 3)
        browser = self.live(daemon, "#metric=picks_per_second")
        self.assertEqual(browser.evaluate('document.querySelector("#metric").value'), "picks_per_second")
        drawn = """(() => {
            const map = document.querySelector("#map");
            if (!map.width) return 0;
            const copy = new OffscreenCanvas(map.width, 1).getContext("2d", {willReadFrequently: true});
            copy.drawImage(map, 0, 0);
            const data = copy.getImageData(0, 0, map.width, 1).data;
            let drawn = 0;
            for (let i = 3; i < data.length; i += 4) drawn += data[i] === 255;
            return drawn / map.width;
        })()"""
        browser.wait(f"{drawn} > 3 / 120 * 0.5")

    def test_the_form_says_where_a_request_would_go(self):
        backend = self.backend()
        browser = self.live(self.start_daemon(backend))
        browser.wait('document.querySelector("#sessions-body").textContent === "No pool keeps sessions: none has affinity."')
        browser.wait('document.querySelector("#tenants-body").textContent === "The file names no tenants."')
        browser.evaluate('document.querySelector("#explain-form").scrollIntoView()')
        browser.click("#explain-form button")
        browser.wait(f'document.querySelector("#explained").textContent.includes("pool: {backend.address}, by picker least-connections")')

    def test_the_configuration_is_shown_without_secrets(self):
        backend = self.backend()
        secret = 'p$s"s\\w'
        config = {"pools": [{"name": "pool", "backends": ["${HIDDEN}"], "limits": {"max_in_flight": "${ONE}"}}], "tenants": [{"name": "t", "keys_sha256": ["ab" * 32]}],
                  "routes": [{"match": {"header": {"x-key": "${SECRET}"}}, "pool": "pool"}]}
        daemon = self.daemon(config, env={"HIDDEN": backend.address, "SECRET": secret, "ONE": "1"})
        browser = self.live(daemon)
        browser.evaluate('document.querySelector("#config").scrollIntoView()')
        browser.click("#config summary")
        browser.wait('document.querySelector("#config-body pre")?.textContent.includes("${HIDDEN}")')
        shown = browser.text("#config-body")
        for text in ("x-key: ${SECRET}", "max_in_flight: ${ONE}", "address: 127.0.0.1:0"):  # by place, not by value
            self.assertIn(text, shown.replace('"', ""))
        for hidden in (backend.address, "p$", "abab"):
            self.assertNotIn(hidden, shown)
        config = json.loads(daemon.config_path.read_text())
        config["pools"][0]["picker"] = "round-robin"
        daemon.config_path.write_text(json.dumps(config))
        self.assertEqual(daemon.ask_admin("/api/v1/reload", method="POST").status, 200)
        browser.wait('document.querySelector("#config-body").textContent.includes("pool pool: picker: least-connections -> round-robin")')

    def test_each_metric_has_a_past(self):
        daemon = self.start_daemon(self.backend())
        browser = self.live(daemon)
        answers = browser.evaluate("""import("/ui/samples.js").then(({metrics}) => Promise.all(Object.keys(metrics).map(
            async (name) => [name, (await fetch("/api/v1/history?metric=" + name)).status])))""")
        self.assertGreater(len(answers), 5)
        self.assertEqual([name for name, status in answers if status != 200], [])

    def test_a_click_does_not_stop_the_table(self):
        servers = self.simulators(count=2)
        daemon = self.start_daemon(*servers.addresses)
        browser = self.live(daemon, "#filter=" + servers.addresses[0])
        browser.wait('document.querySelector("#count").textContent === "1 of 2"')
        browser.click("tbody .name")
        browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=0, y=0)
        self.assertTrue(browser.evaluate('document.querySelector("#table tbody").matches(":focus-within")'))
        config = json.loads(daemon.config_path.read_text())
        del config["pools"][0]["backends"][0]
        daemon.config_path.write_text(json.dumps(config))
        self.assertEqual(daemon.ask_admin("/api/v1/reload", method="POST").status, 200)
        browser.wait('document.querySelector("#count").textContent === "0 of 1"')

    def test_hostile_names_are_text(self):
        backend = self.backend()
        daemon = self.start_daemon({"address": backend.address, "labels": {"gpu": HOSTILE}}, pool={"models": [HOSTILE]})
        browser = self.live(daemon)
        browser.wait(f'document.querySelector("#table").textContent.includes({json.dumps(HOSTILE)})')
        browser.click("td .name")
        browser.wait(f'document.querySelector("#card").textContent.includes({json.dumps(HOSTILE)})')
        self.assertEqual(browser.evaluate('document.querySelectorAll("img, body script").length'), 0)
        self.assertEqual(browser.evaluate("typeof window.hacked"), "undefined")

    def test_it_works_by_keyboard_and_is_readable_in_both_themes(self):
        daemon = self.start_daemon(self.backend(), self.backend())
        browser = self.live(daemon)
        reached = []
        for _ in range(30):
            browser.press("Tab")
            reached.append(browser.evaluate("document.activeElement.id || document.activeElement.className || document.activeElement.textContent"))
        for wanted in ("skip", "token-open", "theme", "metric", "map", "filter", "State", "name", "Drain", "request-order"):
            self.assertIn(wanted, reached)
        browser.evaluate('document.querySelector("#map").focus()')
        for key in ("ArrowDown", "ArrowLeft"):
            browser.press(key)
        self.assertRegex(browser.text("#cell"), r"^pool / 127\.0\.0\.1:\d+, [\d:]+: ")
        for theme in ("light", "dark"):
            browser.evaluate(f'document.documentElement.dataset.theme = "{theme}"')
            self.assertEqual(browser.evaluate(LOW_CONTRAST), [], theme)

    def load(self, daemon, interval=0.05, fields=()):
        """Sends requests until the test ends."""
        stop = threading.Event()

        def send():
            while not stop.is_set():
                exchange(daemon.address, "GET", "/v1/models", fields)
                stop.wait(interval)

        sending = self.spawn(send)
        self.addCleanup(sending.join)
        self.addCleanup(stop.set)

    def test_requests_flow_as_dots_until_they_are_paused(self):
        servers = self.simulators(count=2)
        daemon = self.start_daemon(*servers.addresses)
        browser = self.live(daemon)
        self.load(daemon)
        browser.evaluate('document.querySelector("#flow").scrollIntoView({block: "center"})')
        browser.wait('/a dot is one request; [1-9].* requests per second/.test(document.querySelector("#flow-note").textContent)')
        browser.wait(f'{MOVES}.then((moved) => moved > 3)')
        self.assertRegex(browser.evaluate('document.querySelector("#flow").getAttribute("aria-label")'), r"pool: [\d.]+ requests per second")
        browser.click("#flow-pause")
        self.assertEqual(browser.text("#flow-pause"), "Go on")
        browser.wait(f'{MOVES}.then((moved) => moved <= 1)')  # what a second says changes the numbers
        browser.click("#flow-pause")
        browser.wait(f'{MOVES}.then((moved) => moved > 3)')

    def test_reduced_motion_shows_the_flow_as_a_picture_and_a_table(self):
        backend = self.backend()
        daemon = self.start_daemon(backend)
        self.browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-reduced-motion", "value": "reduce"}])
        self.addCleanup(self.browser.call, "Emulation.setEmulatedMedia", features=[])
        browser = self.live(daemon)
        self.load(daemon)
        browser.evaluate('document.querySelector("#flow").scrollIntoView({block: "center"})')
        browser.wait('parseFloat(document.querySelector("#flow-table td:nth-child(5)")?.textContent) > 0')
        self.assertIn(backend.address, browser.text("#flow-table"))
        self.assertTrue(browser.evaluate('document.querySelector("#flow-pause").hidden'))
        browser.wait(f'{MOVES}.then((moved) => moved <= 1)')

    def test_a_failed_request_is_a_square_of_another_color(self):
        bad = self.backend(lambda request: request.answer(status=500))
        daemon = self.start_daemon(bad, pool={"health": {"check": "off"}, "outlier": {"consecutive": 0}})
        browser = self.live(daemon)
        self.load(daemon)
        browser.evaluate('document.querySelector("#flow").scrollIntoView({block: "center"})')
        browser.wait(f'{DRAWN.format(".dot.out")} > 30')

    def test_sessions_show_where_they_are_and_their_moves(self):
        first, second = self.simulators(), self.simulators()
        daemon = self.start_daemon(*first.addresses, *second.addresses, pool={"affinity": {"by": ["header:x-session"], "mode": "hard"}})
        secret = '"><img src=x onerror="window.hacked=1">'
        home = self.session_backend(daemon, secret)
        browser = self.live(daemon)
        browser.evaluate('document.querySelector("#sessions").scrollIntoView()')
        browser.wait('document.querySelector("#sessions-body").textContent.includes("1 sessions of at most")')
        browser.wait(f'document.querySelector("#sessions-body").textContent.includes("{home}1 (100 %)")')
        (first if first.addresses[0] == home else second).kill()
        self.eventually(lambda: self.session_backend(daemon, secret) not in (None, home))
        browser.wait('/1 moved|2 new/.test(document.querySelector("#sessions-body").textContent)')
        shown = browser.evaluate("document.body.outerHTML")
        self.assertNotIn("hacked", shown)
        self.assertEqual(browser.evaluate("typeof window.hacked"), "undefined")

    def session_backend(self, daemon, session):
        exchange(daemon.address, "GET", "/v1/models", [("x-session", session)])
        (pool,) = daemon.api("sessions?pool=pool")
        return pool["newest"][0]["backend"] if pool["newest"] else None

    def test_tenants_show_their_use(self):
        backend = self.backend(lambda request: request.answer(
            b'{"model": "m", "usage": {"prompt_tokens": 7, "completion_tokens": 3}}', fields=[("content-type", "application/json")]))
        daemon = self.daemon({
            "listeners": [{"name": "public", "address": "127.0.0.1:0", "tenant_header": "x-tenant", "trusted_proxies": ["127.0.0.1"]}],
            "tenants": [{"name": "acme", "weight": 2, "priority": "batch"}],
            "pools": [{"name": "pool", "backends": [backend.address], "inspect": True, "engine": "vllm",
                       "health": {"check": "off"}, "metrics": {"scrape": "off"}}]})
        for _ in range(3):
            exchange(daemon.address, "POST", "/v1/chat/completions", [("x-tenant", "acme")], b'{"model": "m", "messages": []}')
        browser = self.live(daemon)
        browser.evaluate('document.querySelector("#tenants").scrollIntoView()')
        cells = '[...document.querySelectorAll("#tenants-body tbody tr:first-child td")].map((each) => each.textContent)'
        browser.wait(f'{cells}[8] === "3"')
        shown = browser.evaluate(cells)
        self.assertEqual(shown[:5] + shown[8:], ["acme", "2", "batch", "0", "0", "3", "21", "9", "none"])
        self.assertEqual(browser.text("#tenants-body tbody tr:nth-child(2) td"), "other")

    def test_behind_a_proxy_that_cuts_streams_it_polls(self):
        self.polls_until_the_stream_comes_through("cut")

    def test_behind_a_proxy_that_holds_streams_back_it_polls(self):
        self.polls_until_the_stream_comes_through("hold")

    def test_a_token_counts_while_the_page_polls(self):
        daemon = self.with_token(self.backend())
        proxy = StreamProxy(daemon.admin, "hold")
        self.addCleanup(proxy.close)
        browser = self.show(daemon, at=proxy.address)
        browser.wait('document.querySelector("#connection")?.textContent === "polling"')
        browser.wait('document.querySelector("#access").textContent === "read only"')
        self.use_token(browser)
        browser.wait('document.querySelector("#access").textContent === "changes allowed"')
        self.assertEqual(browser.text("#connection"), "polling")

    def polls_until_the_stream_comes_through(self, mode):
        daemon = self.start_daemon(self.backend(), self.backend())
        proxy = StreamProxy(daemon.admin, mode)
        self.addCleanup(proxy.close)
        browser = self.show(daemon, at=proxy.address)
        browser.wait('document.querySelector("#connection")?.textContent === "polling"')
        browser.wait('document.querySelector("#count").textContent === "2"')
        self.load(daemon)
        browser.wait('parseFloat(document.querySelector("tbody tr:nth-child(2) td:nth-child(11)").textContent) > 0')
        self.assertEqual(browser.evaluate('document.querySelector("#main").className'), "")
        self.assertGreater(proxy.streams, 0)
        proxy.mode = "pass"
        browser.wait('document.querySelector("#connection").textContent === "live"', within=60)

    def test_a_thousand_backends_stay_usable(self):
        backend = self.backend()
        port = backend.address.rpartition(":")[2]
        daemon = self.start_daemon(*(f"127.0.{i // 250}.{i % 250 + 1}:{port}" for i in range(1000)),
                                   pool={"health": {"check": "off"}})
        browser = self.live(daemon)
        browser.wait('document.querySelector("#count").textContent === "1000"')
        self.assertLess(browser.evaluate('document.querySelectorAll("#table tr").length'), 60)
        browser.evaluate('document.querySelector("#flow-details").open = true')
        browser.wait('document.querySelectorAll("#flow-table tbody tr").length === 16')
        self.assertIn("985 others", browser.text("#flow-table"))
        frames = browser.evaluate(FRAMES)
        print(f"{frames:.0f} frames per second", end=" ", flush=True)
        if not SANITIZED:
            self.assertGreater(frames, 30 / max(1, slowness()))
        browser.click("#filter")
        browser.type("127.0.3.250:")
        browser.wait('document.querySelector("#count").textContent === "1 of 1000"')


if __name__ == "__main__":
    case.main()
