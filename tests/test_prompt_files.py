"""The prompt files carry every rule of their sources, and nothing beside.

The tables name each rule, exception, threshold, example, default and reminder of the source documents, under the
heading where it belongs: what one line of the prompt must say, in words that stand there in this order with anything
in between (`…`), and after `>>` where it is a sub-item of a line. Every line of a prompt is claimed by an entry, so a
rule that is deleted, moved, blunted or added fails.
"""

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from tasks.rubrics.rubric import PROMPTS, Prompt, load_rubric

SEEDS = Path(__file__).parents[2] / "shared" / "seeds"
COPIED_WORDS = 8
"""So many consecutive words in common with a source count as copied; no passage is exempt."""

ALL_FOUR = ["Model", "Human", "Both are good", "Both are bad"]
DIAGRAMS = ["Human-drawn Diagram (Human)", "Model-generated Diagram (Model)"]
PLOTS = ["Human-Drawn Plot (Human)", "Model-Generated Plot (Model)"]
FRONT_MATTER = {
    "diagram/faithfulness": (1, ALL_FOUR, "", ["Method Section", "Diagram Caption", *DIAGRAMS]),
    "diagram/conciseness": (2, ALL_FOUR, "", ["Method Section", "Diagram Caption", *DIAGRAMS]),
    "diagram/readability": (1, ALL_FOUR, "Both are good", ["Diagram Caption", *DIAGRAMS]),
    "diagram/aesthetics": (2, ALL_FOUR, "", ["Diagram Caption", *DIAGRAMS]),
    "plot/faithfulness": (1, ["Human", "Both are good"], "", ["Raw Data", "Plot Brief Description", *PLOTS]),
    "plot/conciseness": (2, ALL_FOUR, "Both are good", ["Raw Data", "Plot Brief Description", *PLOTS]),
    "plot/readability": (1, ALL_FOUR, "Both are good", ["Plot Brief Description", *PLOTS]),
    "plot/aesthetics": (2, ALL_FOUR, "", ["Plot Brief Description", *PLOTS]),
}
FRONT_MATTER |= {f"paper/{name}": FRONT_MATTER[name] for name in ("diagram/readability", "diagram/aesthetics")}


def opening(field: str, dimension: str, material: str) -> str:
    return f"""
        # Task
        expert judge of {field} … Assess the {dimension} … a model generated … a human drew
        # Material
        {material}
        # Veto rules
        Each … red line … commits even one … failed {dimension} at once
        """


def diagram(dimension: str, *, context: bool) -> str:
    material = "Method Section: text\n" * context + "Diagram Caption: text\n"
    pictures = "Human-drawn Diagram (Human): picture\nModel-generated Diagram (Model): picture"
    return opening("visual design in academia", dimension, material + pictures)


def plot(dimension: str, *, context: bool) -> str:
    material = "Raw Data: structured data\n" * context + "Plot Brief Description: … kind of plot … what it contains\n"
    pictures = "Human-Drawn Plot (Human): picture\nModel-Generated Plot (Model): picture"
    return opening("data visualization in academia", dimension, material + pictures)


def reply(dimension: str, each: str, conclusion: str, winner: str = "Both are bad") -> str:
    return f"""
        # Reply
        Keep strictly to the JSON form
        `winner` is … "{winner}".
        `comparison_reasoning` is one single string of three parts in this order, separated by "; "
        `{dimension} of Human:` … {each.format("Human")}
        `{dimension} of Model:` … {each.format("Model")}
        `Conclusion:` … final verdict, … {conclusion}
        """


def open_winners(dimension: str, figure: str, extra: str = "") -> str:
    return f"""
        # Decision
        two {figure}s … strictly the best. Nothing counts but the definition and the veto rules
        Model: the Model {figure} fulfils the definition of {dimension} better{extra}, and commits no veto error
        Human: the Human {figure} fulfils the definition of {dimension} better{extra}, and commits no veto error
        """


BOTH_BAD_CASES = """
    # Decision
    Both are bad: one of these two cases
    Both are bad: >> BOTH diagrams break at least one veto rule
    Both are bad: >> Crucial: where both fail the definition, do not force a winner
    """
REMINDER = """
    # Decision
    Reminder: … hesitating … "Model" or "Human" or to say "Both are good", say "Both are good". …
    A winner is reserved … differs clearly and substantially
    """
AGAINST_DEFINITION = "how {} stands against the definition, and which veto errors it commits"

DIAGRAM_READABILITY = (
    diagram("Readability", context=False)
    + """
    # What Readability means
    Readability is the ease … extract the core information … navigate
    must have high legibility, a clear visual flow and a minimum of visual interference …
    one glance … understands the paths that the data take
    Important: … baseline requirement, and not as what sets diagrams apart. Most academic diagrams … are readable
    failed by a severe violation of the veto rules below, and only by that. …
    Minor differences of style, in layout or in design choices, should NOT be counted
    # Veto rules
    1. Visual noise and foreign elements: … not content … extracting information
    Visual noise >> title of the figure ("Figure 1: ..." … or the whole text of the caption … into the pixels
    title of the figure >> Note: … label subfigures … (a), (b) or "Module A" … permitted and even encouraged
    Visual noise >> Labels that appear twice with no semantic purpose (the title of a subplot rendered two times
    appear twice >> Note: deliberate repetition … logic is acceptable (a "Sampling" block … iterations
    Visual noise >> Watermarks and other meta-information that clutter
    2. Occlusion and overlap: text labels … other text, shapes or arrows, and become unreadable
    3. Chaotic routing: … "spaghetti loops", or cross so excessively and needlessly that nobody can trace
    4. Illegible font size: … small … extreme zooming to read, or font sizes that lack consistency
    5. Low contrast: light text on a light ground (or dark on dark) … cannot be seen, or … only with extreme effort
    6. … non-rectangular layout: … not composed as a compact rectangle … wastes space
    6. >> Protruding parts: small … (a legend or a sub-plot … outside the main frame … large margins …
    "dead zones" stay empty within the bounding box
    6. >> Unbalanced corners: … one region … other corners are left blank to a disproportionate extent
    6. >> LaTeX: … rectangular box … protrudes above the main block … wrap around its highest point …
    wastes vertical space
    6. >> Note: white space that is intended … visual hierarchy, is acceptable. … clearly inefficient …
    academic publication
    7. Black background: … typically does not … academic publications
    # Decision
    CRITICAL: … passed or failed, and the veto rules decide … If neither … "Both are good" is the default …
    you MUST give
    Both are good: THE DEFAULT. … whenever both diagrams break no veto rule and can be parsed with reasonable ease. …
    Do NOT let small preferences in layout or differences of style make a winner
    two diagrams … strictly the best. Nothing counts but the definition and the veto rules
    Model: ONLY if Model breaks no veto rule while Human breaks at least one, OR if the Model … more readable …
    dramatic margin (for example, … Human has severe issues that stop just short of a veto)
    Human: ONLY if Human breaks no veto rule while Model breaks at least one, OR if the Human … more readable …
    dramatic margin
    Both are bad: ONLY if BOTH diagrams break at least one veto rule
    """
    + reply("Readability", AGAINST_DEFINITION, "on the definition and the veto rules")
)

DIAGRAM_AESTHETICS = (
    diagram("Aesthetics", context=False)
    + open_winners("Aesthetics", "diagram")
    + """
    Both are good: each of the two fulfils the definition of Aesthetics, and neither commits a veto error
    Both are bad: BOTH diagrams break at least one veto rule, or fail the definition
    # What Aesthetics means
    Aesthetics is … visual polish, its professional maturity and the harmony of its design. …
    publication standards of the leading AI conferences (NeurIPS or CVPR, for example)
    # Veto rules
    2. Disharmony of color: jarring "neon" colors of high saturation, or an inconsistent … professional balance
    """
    + reply("Aesthetics", AGAINST_DEFINITION, "on the definition and the veto rules")
)

TABLES = {
    "diagram/faithfulness": diagram("Faithfulness", context=True)
    + open_winners("Faithfulness", "diagram")
    + BOTH_BAD_CASES
    + """
    Both are bad: >> Or both mislead fundamentally, or hold significant errors of logic
    Both are good: each of the two fulfils the definition of Faithfulness, and neither commits a veto error
    # What Faithfulness means
    Faithfulness is … agrees, on the technical level, with what the paper says. … all of these
    facts must be correct and its logic sound
    must keep strictly to the scope that the Diagram Caption sets
    must preserve the central flow of logic and the interplay between modules of the Method Section, …
    and fabricate nothing
    simplify is encouraged (one block … standard module … every visual element … must rest directly on the text …
    must not contradict
    Important: … allowed, even encouraged, to simplify smartly. … do not take the simpler-looking … less faithful …
    As long as both preserve … flow of logic … interplay … fabricate nothing … caption, … should be "Both are good"
    # Veto rules
    1. Major hallucination: modules, entities or functional connections … invented, … Method Section does not mention
    2. Contradicted logic: … directly against the method … wrong way, an essential step bypassed … or …
    connections … are missing
    3. Scope … does not agree with the scope that the Diagram Caption
    4. Gibberish: boxes or arrows … nonsense text, garbled labels or sham mathematical notation (… LaTeX … broken
    """
    + reply("Faithfulness", "how well {} keeps to method and caption, and which veto errors", "accuracy and the veto"),
    "diagram/conciseness": diagram("Conciseness", context=True)
    + open_winners("Conciseness", "diagram", " (its signal-to-noise ratio is higher)")
    + BOTH_BAD_CASES
    + """
    Both are bad: >> Or both are equally ineffective in abstracting the information (a low signal-to-noise ratio)
    Both are good: each … abstracting at a high level and adheres strictly to the definition … no veto error
    # What Conciseness means
    Conciseness is a "visual signal-to-noise ratio". … visual abstraction … from high up, …
    and not as a literal translation
    must boil complex logic down to clean blocks, flowcharts or icons
    keywords and structural shorthand (grouping, arrows), instead of heavy mathematical notation, …
    explicit descriptions or dense explanations
    # Veto rules
    1. Too much text: … structure in full sentences, in verb phrases, or in lengthy text (over 15 words)
    1. >> Exception: a full sentence is permitted, but only if … explicitly … data example (… sample … input query
    2. Copied text: … Method Section pasted into boxes ("box-ified"), with no visual abstraction
    3. Dumped mathematics: raw equations clutter … where conceptual blocks
    """
    + reply("Conciseness", AGAINST_DEFINITION, "on the veto rules and the comparison"),
    "diagram/readability": DIAGRAM_READABILITY + REMINDER,
    "paper/diagram/readability": DIAGRAM_READABILITY,
    "diagram/aesthetics": DIAGRAM_AESTHETICS
    + """
    # What Aesthetics means
    refined visual hierarchy, white space in balance, typography that stays consistent, … harmonious palette
    should feel precise and "scientific", and avoid the artifacts of an amateur …
    oversimplified clip-art styles
    When both diagrams look good you can answer "Both are good": a winner need not be forced
    # Veto rules
    1. Low-quality artifacts: a background grid … draw.io … pixelation, … blurred, or shapes that are distorted
    3. Amateurish styling: "bubbly" … rounded too far, clip-art … "corporate blog", or decoration …
    without scientific precision
    4. Inconsistent typography: several unrelated fonts mixed, or blocks of text out of alignment
    5. Black background: … black typically … unprofessional in academic publications
    # Decision
    you can answer "Both are good" when both diagrams look good: a winner need not be forced
    """,
    "paper/diagram/aesthetics": DIAGRAM_AESTHETICS
    + """
    # What Aesthetics means
    Important:
    Only how the diagram looks … neither how it functions nor how true it is. …
    not agree with the caption or with the Human diagram is therefore ok
    AI conferences of today, clip-art styles and a variety of fonts (Comic Sans … are ok. … aesthetically pleasing, …
    above all … agents. Avoid biases of taste that are out of date
    # Veto rules
    1. Low-quality artifacts: a background grid … draw.io … blurred, or shapes that are distorted
    3. Black background: … black typically … unprofessional in academic publications
    """,
    "plot/faithfulness": plot("Faithfulness", context=True)
    + """
    # What Faithfulness means
    Faithfulness is how accurately … represents the data … conveys the information it is meant to
    must show the data values correctly, use chart types that are appropriate, keep its labels accurate, …
    statistical relationships properly, neither distorted nor made up
    Important:
    (a line chart or a bar chart, another color scheme) is acceptable as long as … accurately. …
    data are accurate and the labels correct, not which style
    Human-Drawn Plot is what the Raw Data were extracted from. … ground truth …
    Human is faithful to the data by definition. … judge is whether Model is as faithful
    # Veto rules
    1. Distorted data: data values plotted wrongly, scales that mislead (… y-axis cut off … exaggerated), …
    or statistical relationships misrepresented
    2. Fabricated labels: annotations, axis labels or entries of the legend at odds with the Raw Data or …
    Plot Brief Description (a metric under a wrong name, experiment conditions
    3. Critical information missing: … essential is omitted completely, such as axis labels, units, legends, …
    key data series that the Plot Brief Description mentions
    3. >> Important: … completely absent. … illegible because … styled badly (white text on white, …
    too little contrast) … under Readability and not under Faithfulness
    4. Wrong chart type: … misrepresents the data fundamentally (… pie chart for a time series, …
    line chart to compare categories
    5. Gibberish: … characters that make no sense, formulas that are garbled, or symbols that cannot be read
    6. Fabricated statistical indicators: error bars, confidence intervals, significance markers … have been added, …
    neither the Raw Data nor the Plot Brief Description contains or supports
    # Decision
    CRITICAL: Because the Raw Data come out of the Human plot, that plot always remains the ground truth …
    match it or fall short
    Choose the option that applies
    Both are good: Model succeeds in being as faithful as Human. … all data values accurately, …
    appropriate chart types, labels correctly, and commits no veto error
    Human: Model fails to be as faithful as Human. … at least one veto error, or …
    shows data inaccurately where Human does not
    Note: … no verdict "Model" and no verdict "Both are bad"; they are not valid … by definition faithful
    """
    + reply(
        "Faithfulness",
        "accuracy of the data, labels and veto errors",
        "data are represented and on the veto",
        "Both are good",
    )
    + """
    Faithfulness of Human … as the ground truth, is always faithful
    Faithfulness of Model … checked against Human
    """,
    "plot/conciseness": plot("Conciseness", context=True)
    + """
    # What Conciseness means
    Conciseness … information that is needed to communicate the data effectively, and only that. …
    no redundant or excessive content, nothing that does not help to understand the data
    Important: … statistical plots … baseline requirement. Most … are concise. … violations of …
    veto rules below, and ONLY
    Not a problem of Conciseness:
    Grid lines, bounding boxes and plot spines, … standard elements of style
    Tick marks and minor ticks
    Standard additions that help to interpret … error bars or confidence intervals
    Choices of layout, … subplots are arranged or what aspect ratio … (unless veto rule 2 is broken)
    Grid lines together with data labels: … spatial reference, … numbers do not make redundant
    Axis scales together with data labels: … context of the range, … precision
    Every other minor difference in … visual design
    # Veto rules
    1. Redundant labels: the very same data values … several times without purpose. Examples
    1. >> bars AND a number on every bar, when the bars are many (8 or more: >= 8) and …
    scale of the y-axis is clear and precise enough
    bars AND a number >> Exception: … few (fewer than 8: < 8), … acceptable and do not count as redundant
    1. >> percentage on the slices of a pie AND a separate legend … same percentages
    1. >> Wordy labels: … x-ticks … phrases of excessive length or full sentences, which clutter … repeat …
    caption or description
    1. >> Not redundant: grid lines and axes (elements of structure) combined with data labels (exact values)
    2. Needless subplots: … too many subplots, though a single, unified one would be more efficient and clearer
    2. >> No violation: insets that zoom in, views of a detail, or subplots … so that data can be seen (…
    differences of scale would otherwise hide … have a function and are not redundant
    3. Too much text: labels that are long and wordy, legends … too much detail, or annotations …
    length of a paragraph, which belong in the caption
    # Decision
    CRITICAL: … strictly passed or failed, and ONLY the veto rules decide … If neither … "Both are good" …
    default that you MUST give
    two plots … strictly the best
    Both are good: THE DEFAULT. … whenever both plots break no veto rule. Do NOT let …
    differences of style make a winner, … grid lines … bounding box … spines … other choices of visual design
    Model: ONLY if Model breaks no veto rule while Human breaks at least one.
    Human: ONLY if Human breaks no veto rule while Model breaks at least one.
    Both are bad: ONLY if BOTH plots break at least one veto rule
    Reminder: Spines, grid lines, bounding boxes … are NOT a problem of Conciseness. The three veto rules …
    only thing to judge by
    """
    + reply("Conciseness", "which veto rules {} breaks, if any, and only that", "strictly on the veto rules"),
    "plot/readability": plot("Readability", context=False)
    + """
    # What Readability means
    Readability is the ease … extract the data and the key findings … interpret
    must have axis labels that are clear and give units, text that is legible, colors and markers … told apart, …
    legend that can be understood, and a minimum of visual interference. … instantly, with no confusion
    Important: … baseline requirement. Most academic plots … are readable
    failed by a severe violation of the veto rules below, and only by that. Minor … should NOT be counted
    # Veto rules
    1. Visual noise and foreign elements:
    1. >> title of the figure ("Figure 3: ..." … or the whole text of the caption … into the pixels
    title of the figure >> Note: … label subfigures … (a), (b) … panels … titles is permitted and even encouraged
    1. >> Watermarks, logos and other meta-information that clutter
    2. Axes missing or without labels: … label or its units, … impossible to understand what was measured
    3. Illegible text: … too small to read; text that runs over data points, grid lines or other elements; …
    contrasts too little with its background (black on black, dark on dark or white on white
    4. Colors hard to tell apart: … too similar … or, where there are several series, …
    not friendly to the colorblind
    5. No legend where one is needed: several data series with no legend, or with an unclear one …
    not identify what each line or bar
    6. Low contrast: lines, bars, markers … merge with the background … cannot be seen, or only with great difficulty
    7. Invisible data: data points, lines or bars so small, so thin or so transparent … not clearly visible
    8. Legend over the data: … on top of critical data points or trends and obscures important information
    # Decision
    CRITICAL: … passed or failed, and the veto rules decide … If neither … "Both are good" is the default …
    you MUST give
    two plots … strictly the best. Nothing counts but the definition and the veto rules
    Both are good: THE DEFAULT. … whenever both plots break no veto rule and … interpreted with reasonable ease. …
    Do NOT let small preferences of style make a winner
    Model: ONLY if Model breaks no veto rule while Human breaks at least one, OR if the Model … more readable …
    dramatic margin
    Human: ONLY if Human breaks no veto rule while Model breaks at least one, OR if the Human … more readable …
    dramatic margin
    Both are bad: ONLY if BOTH plots break at least one veto rule
    """
    + REMINDER
    + reply("Readability", AGAINST_DEFINITION, "on the definition and the veto rules"),
    "plot/aesthetics": plot("Aesthetics", context=False)
    + open_winners("Aesthetics", "plot")
    + """
    Both are good: … definition of Aesthetics with no veto error, and is up to the standards of publication
    Both are bad: BOTH plots break at least one veto rule, or fall short of the quality that publication demands
    # What Aesthetics means
    Aesthetics … visual appeal: … color scheme, choice of fonts, line styles, harmony of layout and quality of rendering
    well-chosen colors, fonts that read well, clean lines, … professional styling … standards of publication
    Important: … diverse aesthetic styles
    Legends are standard practice: … no worse than direct labels, and either can be aesthetic
    Outlines and borders … black border can look clean and professional, and is not by default "dated"
    Palettes are diverse: … many color schemes … only choices to avoid are the obviously unprofessional
    playful on purpose: … slightly "cartoonish" is acceptable … if it is executed well
    Layouts differ: exploded slices, the arrangement of subplots … decisions of design … traded off
    Hatching is beneficial: … black-and-white print. … standard in academia; do not penalize it as "visual clutter"
    Spines: … right and top spines were removed should not count as more aesthetic than … full box
    No need for a winner: if both plots look good, choose "Both are good". Minor preferences of style need not
    Grid lines have a function: solid or visible … help to read a complex plot. …
    should not be penalized against dashed ones or none, unless data points are severely obscured
    Fonts are flexible: serif (Times New Roman … sans-serif (Arial or Helvetica … standard of academic papers; …
    do not mark sans-serif down as "generic"
    visual harmony and professional quality as a whole, and not one particular "minimalist" or "modern"
    Key standards: … vector graphics (no pixelation), … obviously unprofessional (neon colors, …
    black backgrounds), and does not resemble …
    poor screenshot or the rendering of an amateur
    # Veto rules
    1. Low-quality artifacts: pixelation that is obvious, … blurred, … jagged, … distorted, as signs of poor rendering
    2. Unprofessional colors: the default colors of Excel, Google Sheets or Matplotlib (yellow & blue), …
    extremely jarring neon colors, or … contrast is severely poor
    3. Inconsistent styling: … fonts that are obviously unrelated, line widths that are extremely inconsistent, or …
    marker styles that clearly do not match across data series of a similar kind
    4. Look of the default software: … matplotlib, Excel or another tool … completely unmodified, with no effort
    5. Black background: … against the standards of academic publishing and looks unprofessional
    6. Excess of 3D: 3D rendering, perspective or shadows … gratuitously, … nothing of value … look unprofessional
    6. >> Note: … severely distort how the data are interpreted, or misrepresent relationships … for …
    Faithfulness to judge instead
    7. Distorted aspect ratio: … severely distorted (a circle … ellipse, a square … rectangle), … unprofessional
    7. >> Exception: a truncated y-axis (… not start at 0) is standard practice … subtle differences … visible. …
    Do not penalize … axis from 0 is often less informative when all values are high (>80%
    """
    + reply("Aesthetics", AGAINST_DEFINITION, "on the definition and the veto rules"),
}


class Line(NamedTuple):
    """A line of a prompt, without its bold marks: the heading and the item it stands under, and its text."""

    heading: str
    parent: str
    text: str


def prompt(name: str) -> Prompt:
    *prompt_set, flow, dimension = name.split("/")
    return load_rubric(flow, *prompt_set).prompt(dimension)


def lines(body: str) -> list[Line]:
    found: list[Line] = []
    heading, above = "", list[tuple[int, str]]()
    for raw in filter(str.strip, body.replace("*", "").splitlines()):
        if raw.startswith("#"):
            heading, above = raw, []
            continue
        depth = len(raw) - len(raw.lstrip())
        above = [(level, text) for level, text in above if level < depth]
        found.append(Line(heading, above[-1][1] if above else "", raw.strip()))
        above.append((depth, raw.strip()))
    return found


def entries(table: str) -> list[Line]:
    """The entries of a table; a line that ends in `…` goes on in the next."""
    found: list[Line] = []
    heading = ""
    for raw in filter(str.strip, re.sub(r"…\n", "…", table).splitlines()):
        if raw.strip().startswith("#"):
            heading = raw.strip()
        else:
            parent, _, text = raw.rpartition(">>")
            found.append(Line(heading, parent.strip(), text.strip()))
    return found


def says(text: str, words: str) -> bool:
    return re.search(".*".join(re.escape(part.strip()) for part in words.split("…")), text) is not None


def holders(entry: Line, body: str) -> list[Line]:
    """The lines of a prompt that say what an entry of its table asks for."""
    return [
        line
        for line in lines(body)
        if line.heading == entry.heading
        and bool(line.parent) == bool(entry.parent)
        and says(line.parent, entry.parent)
        and says(line.text, entry.text)
    ]


RULES = [(name, entry) for name, table in TABLES.items() for entry in entries(table)]


@pytest.mark.parametrize(("name", "entry"), RULES, ids=[f"{name}: {entry.text[:60]}" for name, entry in RULES])
def test_the_prompt_says(name: str, entry: Line):
    assert len(holders(entry, prompt(name).body)) == 1


@pytest.mark.parametrize("name", TABLES)
def test_the_prompt_says_nothing_beside(name: str):
    body = prompt(name).body
    claimed = [line for entry in entries(TABLES[name]) for line in holders(entry, body)]
    assert [line.text for line in lines(body) if line not in claimed] == []


@pytest.mark.parametrize("name", FRONT_MATTER)
def test_front_matter(name: str):
    found = prompt(name)
    tier, verdicts, default, labels = FRONT_MATTER[name]
    fields = ["context", "caption", "human", "model"][-len(labels) :]
    assert (found.tier, list(found.verdicts), found.default) == (tier, verdicts, default)
    assert list(found.inputs.items()) == list(zip(fields, labels, strict=True))


def test_every_pairwise_prompt_file_has_a_table():
    files = [*PROMPTS.glob("diagram/*.md"), *PROMPTS.glob("plot/*.md"), *PROMPTS.glob("sets/paper/**/*.md")]
    names = {file.relative_to(PROMPTS).with_suffix("").as_posix().removeprefix("sets/") for file in files}
    assert names == set(TABLES) == set(FRONT_MATTER)


@pytest.mark.parametrize("name", TABLES)
def test_the_body_offers_exactly_the_verdicts_that_are_allowed(name: str):
    found = prompt(name)
    decision = "\n".join(line.text for line in lines(found.body) if line.heading == "# Decision" and not line.parent)
    (winner,) = [line.text for line in lines(found.body) if line.text.startswith("`winner`")]
    assert sorted(re.findall(r"^- (.+?):", decision, re.MULTILINE)) == sorted(found.verdicts)
    assert re.findall(r'"(.+?)"', winner) == list(found.verdicts)


@pytest.mark.parametrize("name", TABLES)
def test_the_body_has_no_placeholder(name: str):
    assert not re.search(r"[{}\[\]]|\$\w|<\w", prompt(name).body)


def test_the_papers_readability_is_the_default_without_its_reminder():
    paragraphs = prompt("diagram/readability").body.split("\n\n")
    kept = [paragraph for paragraph in paragraphs if not paragraph.startswith("**Reminder**")]
    assert len(kept) == len(paragraphs) - 1
    assert prompt("paper/diagram/readability").body == "\n\n".join(kept)


REPOSITORY_ONLY = (
    "pixel forced need~not look~good bubbly amateur blog decorat typograph unrelated align hierarchy white~space "
    "palette scientific oversimplif reminder"
)


@pytest.mark.parametrize("absent", [word.replace("~", " ") for word in REPOSITORY_ONLY.split()])
def test_the_papers_aesthetics_lacks_what_only_the_repository_asks(absent: str):
    assert absent not in prompt("paper/diagram/aesthetics").body.lower()


@pytest.mark.parametrize("absent", ["comic sans", "out of date", "how it functions", "agents"])
def test_the_default_aesthetics_lacks_what_only_the_paper_grants(absent: str):
    assert absent not in prompt("diagram/aesthetics").body.lower()


def passages(text: str) -> set[str]:
    """Every run of `COPIED_WORDS` words, in small letters and without punctuation."""
    words = re.findall(r"[a-z0-9]+", text.lower())
    return {" ".join(words[at : at + COPIED_WORDS]) for at in range(len(words) - COPIED_WORDS + 1)}


@pytest.mark.skipif(not SEEDS.is_dir(), reason="the source documents are not here")
@pytest.mark.parametrize("name", TABLES)
def test_no_passage_is_copied_from_a_source(name: str):
    sources = {passage for file in SEEDS.glob("*.txt") for passage in passages(file.read_text(encoding="utf-8"))}
    assert sources
    assert sorted(sources & passages(prompt(name).body)) == []


def test_a_copied_passage_would_be_found():
    body = prompt("diagram/aesthetics").body
    words = body.split()
    assert passages("Before. " + " ".join(words[40:80])) & passages(body)
