#!/usr/bin/python3
"""The browser's part of scripts/test_report.sh: completes the two runs, makes reports and clicks through them."""
import json
import math
import pathlib
import re
import shutil
import subprocess
import sys

from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.ui import Select

FLAGS = """--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking
    --disable-component-update --disable-sync --hide-scrollbars --window-size=1280,900""".split()
HOSTILE = "</script><script>window.hostile = 1</script><img src=x onerror='window.hostile = 1'>"


def write_lines(path, lines):
    with open(path, "a", encoding="utf-8") as log:
        log.writelines(json.dumps(line) + "\n" for line in lines)


def add_instruments(run):
    """What training writes with --log-grads, --log-activations and --log-heads, by formula, and an alarm."""
    steps = range(0, 60, 3)
    write_lines(run / "gradients.jsonl", (
        {"step": step, "parameter": f"block.{layer}.attention.query.weight", "gradient_rms": 10.0 ** -layer / (1 + step),
         "weight_rms": 0.1, "update_rms": 1e-4, "update_weight_ratio": 1e-3 * (1 + layer)}
        for step in steps for layer in range(2)))
    write_lines(run / "activations.jsonl", (
        {"step": step, "layer": layer, "point": point, "rms": 1 + layer + step / 60} | dead
        for step in steps for layer in range(2) for point, dead in (("ffn_hidden", {"dead_share": 0.1}), ("residual_post", {}))))
    write_lines(run / "heads.jsonl", (
        {"step": step, "layer": layer, "head": head, "previous_token": step / 60, "duplicate_token": 0.1, "induction": layer * step / 60}
        for step in steps for layer in range(2) for head in range(3)))
    write_lines(run / "alarms.jsonl", [{"step": 12, "kind": "entropy", "layer": 1, "head": 2, "value": 0.01, "message": HOSTILE}])


def check(condition, what):
    if not condition:
        sys.exit(f"test_report.py: {what}")


class Page:
    """A report in a browser."""

    def __init__(self, browser, path):
        self.browser = browser
        browser.get(path.as_uri())
        text = path.read_text(encoding="utf-8")
        check(path.stat().st_size < 5_000_000, f"{path} has {path.stat().st_size} bytes")
        self.data = json.loads(re.search(r'id="data">(.*?)</script>', text, re.S)[1])

    def find(self, selector):
        return self.browser.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector):
        return self.browser.find_elements(By.CSS_SELECTOR, selector)

    def picture(self, selector):
        return self.browser.execute_script("return document.querySelector(arguments[0]).toDataURL()", selector + " canvas")

    def choose(self, selector, value):
        Select(self.find(selector)).select_by_value(str(value))

    def shot(self, path, width):
        """The whole page at a width; nothing may stand out of it."""
        def size(height):
            self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                         {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})
        size(900)
        self.browser.execute_async_script("setTimeout(arguments[0], 300)")
        check(self.browser.execute_script("return document.documentElement.scrollWidth") <= width, f"the page is wider than {width}")
        size(self.browser.execute_script("return document.documentElement.scrollHeight"))
        self.browser.execute_async_script("setTimeout(arguments[0], 300)")
        self.browser.save_screenshot(str(path))
        self.browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})

    def check_console(self):
        messages = [entry["message"] for entry in self.browser.get_log("browser")]
        check(not messages, f"the console says {messages}")
        check(self.browser.execute_script("return window.hostile") is None, "text of a run was executed")


def check_maps(page, run, layer, head, token):
    """What is written beside the map is what the page's data say of this token."""
    maps = page.data["runs"][run]["maps"]
    count = len(maps["tokens"])
    row = maps["weights"][layer * maps["heads"] + head][token * count:(token + 1) * count]
    order = sorted((k for k in range(count) if row[k] > 0), key=lambda k: (-row[k], k))[:5]
    expected = [[str(k), maps["tokens"][k], f"{row[k] / 1e4:.4f}"] for k in order]
    shown = [[cell.text for cell in line.find_elements(By.TAG_NAME, "td")] for line in page.all("#top tr")]
    check(shown == expected, f"layer {layer} head {head} token {token}: {shown} is shown, expected {expected}")
    check(page.find("#readout").text.startswith(f"Token {token} "), "the line of text names another token")
    pressed = [i for i, button in enumerate(page.all("#strip button")) if button.get_attribute("aria-pressed") == "true"]
    check(pressed == [token], f"tokens {pressed} are marked, not {token}")


def click_through_maps(page):
    maps = page.data["runs"][0]["maps"]
    last = len(maps["tokens"]) - 1
    check_maps(page, 0, 0, 0, last)
    before = page.picture("#map")
    page.choose("#layer", 1)
    page.choose("#head", 2)
    check_maps(page, 0, 1, 2, last)
    check(page.picture("#map") != before, "another head, but the same map")
    page.choose("#token", 1)
    check_maps(page, 0, 1, 2, 1)
    page.all("#strip button")[2].click()
    check_maps(page, 0, 1, 2, 2)
    canvas = page.find("#map canvas")
    page.browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", canvas)
    # A click at the left edge of the map goes through its rows from above to below.
    seen = set()
    height = canvas.size["height"]
    for part in (-0.2, 0.15, 0.35):
        ActionChains(page.browser).move_to_element_with_offset(canvas, int(-0.36 * canvas.size["width"]), int(part * height)).click().perform()
        seen.add(int(page.find("#token").get_attribute("value")))
        check_maps(page, 0, 1, 2, max(seen))
    check(len(seen) == 3, f"clicks on three rows of the map chose the tokens {sorted(seen)}")


def point_at_the_loss(page):
    figure = page.find("[data-chart=loss]")
    page.browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", figure)
    entry = figure.find_element(By.CSS_SELECTOR, ".legend b")
    at_end = entry.text
    ActionChains(page.browser).move_to_element(figure.find_element(By.TAG_NAME, "canvas")).perform()
    step = figure.find_element(By.CSS_SELECTOR, ".step").text
    check(re.fullmatch(r"step (2\d|3\d)", step), f"pointing at the middle of 60 steps says '{step}'")
    series = page.data["charts"]["loss"]["series"][0]
    x = min(series["x"], key=lambda x: abs(x - int(step.split()[1])))
    expected = series["y"][series["x"].index(x)]
    check(math.isclose(float(entry.text), expected, rel_tol=1e-3), f"{entry.text} is shown for a loss of {expected}")
    check(entry.text != at_end, "the value at the step is that at the end")
    figure.find_element(By.CSS_SELECTOR, "figcaption button").click()
    before = page.picture("[data-chart=loss]")
    figure.find_element(By.CSS_SELECTOR, ".legend button").click()
    check(page.picture("[data-chart=loss]") != before, "a curve that is switched off is still drawn")


def one_run(browser, attune, work, screenshots):
    subprocess.run([attune, "report", work / "first"], check=True, stdout=subprocess.DEVNULL)
    page = Page(browser, work / "first" / "report.html")
    check(not page.all("figure .missing"), f"missing: {[p.text for p in page.all('figure .missing')]}")
    check(len(page.all("canvas")) == len(page.all("figure")), "a chart has no canvas")
    check(HOSTILE in page.find("#alarms").text, "the alarm's message is not shown as it is")
    page.shot(screenshots / "one-run.png", 1280)
    point_at_the_loss(page)
    click_through_maps(page)
    page.shot(screenshots / "one-run-narrow.png", 390)
    page.check_console()


def two_runs(browser, attune, work, screenshots):
    subprocess.run([attune, "report", work / "first", work / "second", "--out", work / "both.html"], check=True, stdout=subprocess.DEVNULL)
    page = Page(browser, work / "both.html")
    differences = page.find("#differences").text
    check("rope" in differences and "alibi" in differences and "max-iters" not in differences, f"differences: {differences}")
    page.shot(screenshots / "two-runs.png", 1280)
    before = page.picture("[data-chart=loss]")
    box = page.all("#toggles input")[1]
    box.click()
    check(page.picture("[data-chart=loss]") != before, "a run that is switched off is still drawn")
    off = [b.text for b in page.all("[data-chart=loss] .legend button") if b.get_attribute("aria-pressed") == "false"]
    check(off and all(text.startswith("second") for text in off), f"switched off: {off}")
    box.click()
    page.choose("#run", 1)
    check("of second" in page.find("#maps h2").text, "the maps do not name the run")
    maps = page.data["runs"][1]["maps"]
    page.choose("#layer", 1)
    check_maps(page, 1, 1, 0, len(maps["tokens"]) - 1)
    missing = page.find("[data-run-chart=gradients] .missing").text
    check(missing == "Missing: there is no gradients.jsonl; written with --log-grads", missing)
    page.check_console()


def a_broken_run(browser, attune, work, screenshots):
    """Fields and files that are not there, lines that are none."""
    run = work / f"broken <b>{HOSTILE.split('/')[0]}"
    run.mkdir()
    (run / "metrics.jsonl").write_text('{"step":0,"train_loss":null}\n{"step":3,"lr":1}\n{"step":2,"lr":1}\n{"st')
    (run / "attention.jsonl").write_bytes(b"\xff\xfe\x00[[[[")
    (run / "summary.json").write_text('{"status": ["done"], "steps": "many"}')
    (run / "config.toml").write_text("task = 5")
    shutil.copy(work / "first" / "config.toml", run / "checkpoint.safetensors")
    subprocess.run([attune, "report", run], check=True, stdout=subprocess.DEVNULL)
    page = Page(browser, run / "report.html")
    for chart in ("[data-chart=loss]", "[data-run-chart=entropy_map]", "[data-run-chart=induction]"):
        check(page.find(chart + " .missing").text.startswith("Missing: "), f"{chart} does not say what is missing")
    check(page.find("#no-maps").is_displayed() and not page.find("#some-maps").is_displayed(), "maps without a checkpoint")
    check("2 of 4 lines skipped" in page.find("#files").text, page.find("#files").text)
    page.shot(screenshots / "broken-run.png", 1280)
    page.check_console()


def main():
    attune, work, screenshots = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    add_instruments(work / "first")
    options = webdriver.ChromeOptions()
    options.binary_location = "/usr/bin/chromium"
    for flag in FLAGS + [f"--user-data-dir={work}/profile"]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = webdriver.Chrome(service=Service("/usr/bin/chromedriver"), options=options)
    try:
        one_run(browser, attune, work, screenshots)
        two_runs(browser, attune, work, screenshots)
        a_broken_run(browser, attune, work, screenshots)
    finally:
        browser.quit()
    print("reports: three pages clicked through, no message in the console")


if __name__ == "__main__":
    main()
