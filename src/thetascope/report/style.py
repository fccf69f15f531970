"""The page's style sheet and its few lines of script. Nothing is fetched from anywhere."""

from __future__ import annotations

CSS = """
:root{color-scheme:light dark;--paper:#fdfdfc;--ink:#1c1e21;--soft:#5b6168;--faint:#8b9198;
--rule:#d9dcdf;--tint:#f3f4f3;--mark:#9aa0a6;--link:#0b5a94;--warn:#8a4b00;--warn-tint:#fff4e2;
--c0:#0072b2;--c1:#d55e00;--c2:#00866a;--c3:#b8579a;--c4:#b98a00;--c5:#3a9bd0;--c6:#7a5195;
--c7:#6f757b}
@media (prefers-color-scheme:dark){:root{--paper:#15181b;--ink:#e4e6e8;--soft:#a7adb3;
--faint:#7f868d;--rule:#343a40;--tint:#1d2125;--mark:#7d848b;--link:#7cbcec;--warn:#f0b866;
--warn-tint:#2c2415;--c0:#56aee8;--c1:#f2894b;--c2:#35c39e;--c3:#e294c6;--c4:#e6bd4a;
--c5:#8fd3f7;--c6:#b79ad2;--c7:#a3a9af}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%;text-size-adjust:100%;scroll-behavior:smooth}
body{margin:0;background:var(--paper);color:var(--ink);font:15px/1.55 system-ui,-apple-system,
"Segoe UI",Roboto,"Noto Sans","Helvetica Neue",Arial,sans-serif;overflow-wrap:break-word}
main,header,footer{max-width:1080px;margin:0 auto;padding:0 24px}
header{padding-top:36px}
h1{font-size:27px;line-height:1.2;margin:0 0 6px;letter-spacing:-.01em}
h2{font-size:19px;line-height:1.3;margin:0 0 8px;padding-top:14px;border-top:2px solid var(--ink)}
h2 .no{color:var(--faint);font-weight:400;margin-right:.5em;font-variant-numeric:tabular-nums}
h3{font-size:15px;margin:26px 0 6px}
section{margin:44px 0 0;scroll-margin-top:8px}
p{margin:0 0 10px;max-width:74ch}
a{color:var(--link)}
.lead{font-size:17px;color:var(--soft);max-width:70ch;margin-bottom:16px}
.note{color:var(--soft);font-size:13.5px}
nav{display:flex;flex-wrap:wrap;gap:4px 18px;padding:8px 0;border-top:1px solid var(--rule);
border-bottom:1px solid var(--rule);font-size:13.5px;margin-top:18px}
nav a{text-decoration:none}nav a:hover{text-decoration:underline}
.first{margin:20px 0 0;padding:0;list-style:none;border-left:3px solid var(--c0)}
.first li{padding:5px 0 5px 16px;max-width:92ch}
.first .what{display:block;font-size:12.5px;color:var(--soft)}
.first li.limit{color:var(--soft)}
.n{font-variant-numeric:tabular-nums;font-weight:600;white-space:nowrap}
.i{font-variant-numeric:tabular-nums;color:var(--soft);font-size:.92em;white-space:nowrap}
.absent{border:1px solid var(--rule);border-left:3px solid var(--c4);background:var(--tint);
padding:12px 16px;border-radius:2px}
.absent p:last-child{margin:0}
code,kbd{font:.92em ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}
pre{margin:6px 0 0;padding:8px 12px;background:var(--paper);border:1px solid var(--rule);
overflow-x:auto;white-space:pre}
.box{overflow-x:auto;margin:8px 0 6px;max-width:100%}
.tall{max-height:720px;overflow:auto}.tall th{position:sticky;top:0;background:var(--paper);
z-index:1}.tall th:first-child{z-index:2}

table{border-collapse:collapse;font-size:13px;line-height:1.35;font-variant-numeric:tabular-nums
lining-nums;border-bottom:1px solid var(--mark);border-top:1px solid var(--mark)}
th{font-weight:600;text-align:right;vertical-align:bottom;padding:6px 8px;
border-bottom:1px solid var(--mark);line-height:1.25}
th small,td small{display:block;font-weight:400;color:var(--soft);font-size:11.5px;
white-space:nowrap}
td{text-align:right;vertical-align:top;padding:4px 8px;border-bottom:1px solid var(--rule)}
tbody tr:last-child td{border-bottom:0}
th.l,td.l{text-align:left}
th:first-child,td:first-child{padding-left:4px;position:sticky;left:0;background:var(--paper)}
td.name{white-space:nowrap;max-width:330px;overflow:hidden;text-overflow:ellipsis}
td.id{white-space:nowrap;max-width:250px;overflow:hidden;text-overflow:ellipsis;font-size:12px}
td.wide{min-width:260px;max-width:440px;white-space:normal;overflow-wrap:anywhere}
td.prose{min-width:200px;max-width:430px;white-space:normal}
td.near{font-size:12px;color:var(--soft)}
td.sure{font-weight:650}
td small.sure{color:var(--ink)}
tr.ref td{background:var(--tint)}tr.ref td:first-child{background:var(--tint)}
tr.part td{border-bottom-style:dashed}
tr.head td{font-weight:600;padding-top:10px;border-bottom:1px solid var(--mark)}
tbody tr:hover td{background:var(--tint)}
th button{all:unset;cursor:pointer}
th button:hover,th button:focus-visible{text-decoration:underline}
th[aria-sort=ascending] button::after{content:" \\2191"}
th[aria-sort=descending] button::after{content:" \\2193"}
.absent-cell{color:var(--faint)}
.badge{display:inline-block;font-size:11.5px;line-height:1.5;padding:0 6px;border-radius:3px;
border:1px solid var(--rule);color:var(--soft);white-space:nowrap;font-weight:400}
.badge.warning,.badge.error{color:var(--warn);border-color:var(--warn);background:var(--warn-tint)}
.row{display:flex;flex-wrap:wrap;gap:14px 26px;align-items:flex-start;margin:8px 0 4px}
.row.keep{flex-wrap:nowrap;gap:4px 10px;margin:4px 0}.row.keep svg{flex:none}
.cut{display:block;max-width:190px;overflow:hidden;text-overflow:ellipsis;white-space:nowrap}
.tall{width:fit-content;border:1px solid var(--rule);padding:0 6px}
td.l>small{white-space:normal;min-width:150px;max-width:215px}
figure{margin:0;max-width:100%;overflow-x:auto}
figure.t{overflow:visible;min-width:0;margin:14px 0 8px}
.box{background:linear-gradient(90deg,var(--paper) 30%,transparent),
linear-gradient(270deg,var(--paper) 30%,transparent) 100% 0,
linear-gradient(90deg,#8886,transparent),linear-gradient(270deg,#8886,transparent) 100% 0;
background-repeat:no-repeat;background-size:40px 100%,40px 100%,12px 100%,12px 100%;
background-attachment:local,local,scroll,scroll}
.row>figure.t{margin:2px 0 6px}
figcaption{font-size:13px;color:var(--soft);max-width:92ch;margin-bottom:3px}
figcaption b{color:var(--ink)}
.key{display:flex;flex-wrap:wrap;gap:2px 16px;font-size:12.5px;color:var(--soft);margin:6px 0}
.key i{display:inline-block;width:10px;height:10px;border-radius:50%;margin-right:5px}
details{margin:10px 0}
summary{cursor:pointer;color:var(--link);font-size:14px}
dl{display:grid;grid-template-columns:minmax(130px,210px) 1fr;gap:5px 20px;margin:8px 0;
font-size:14px}
dt{font-weight:600}dd{margin:0;max-width:76ch}
footer{margin:56px auto 40px;color:var(--soft);font-size:12.5px}
footer p{border-top:1px solid var(--rule);padding-top:10px;max-width:none;overflow-wrap:anywhere}
svg.fig{display:block;font-family:inherit;overflow:hidden}
svg text{fill:var(--soft);font-size:11px;unicode-bidi:isolate}
svg .tick{font-size:10.5px;fill:var(--faint)}
svg .axis{font-size:11px}
svg .label{fill:var(--ink);font-size:11.5px}
svg .value{fill:var(--ink);font-size:11.5px}
svg .value,svg .tick{font-variant-numeric:tabular-nums}
svg .grid{stroke:var(--rule);stroke-width:.7}
svg .mark{stroke:var(--mark);stroke-dasharray:4 3;stroke-width:1}
svg .curve{stroke-width:1.6}
svg .bar{stroke-width:1.8;stroke-linecap:round}
svg .dot{stroke-width:1.6}
svg .hollow{fill:var(--paper)!important}
svg .cloud{fill:none;stroke-width:3.6;stroke-linecap:round;stroke-opacity:.5}
svg .count{opacity:.55;stroke:none}svg .heat{stroke:none}
"""

for _i in range(8):
    CSS += f"svg .c{_i}{{stroke:var(--c{_i});fill:var(--c{_i})}}.k{_i}{{background:var(--c{_i})}}\n"

CSS += """
svg .cloud,svg .curve{fill:none}
@media (max-width:700px){body{font-size:14.5px}main,header,footer{padding-left:14px;
padding-right:14px}h1{font-size:23px}.lead{font-size:15.5px}dl{grid-template-columns:1fr}
dd{margin-bottom:8px}td.name,td.id{max-width:140px}td.l>small{min-width:96px;max-width:130px}}
@media print{:root{color-scheme:light;--paper:#fff;--ink:#000;--soft:#444;--faint:#666;
--rule:#ccc;--tint:#f4f4f4;--mark:#777;--link:#000;--c0:#0072b2;--c1:#d55e00;--c2:#00866a;
--c3:#b8579a;--c4:#b98a00;--c5:#3a9bd0;--c6:#7a5195;--c7:#6f757b}
body{font-size:10pt}nav{display:none}section{margin-top:22pt}.box,figure,.tall{overflow:visible;max-height:none}
table{font-size:7.5pt}tr,figure:not(.t),.first li{break-inside:avoid}
h2,h3,figcaption{break-after:avoid}.screen{display:none}.row.keep{zoom:.78}
thead{display:table-header-group}details::details-content{content-visibility:visible;
display:block}th:first-child,td:first-child{position:static}}
"""

SCRIPT = """
for (const table of document.querySelectorAll("table.sort")) {
  table.querySelectorAll("thead th").forEach((th, k) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...th.childNodes);
    th.append(button);
    button.addEventListener("click", () => {
      const up = th.getAttribute("aria-sort") === "descending";
      const key = row => {
        const cell = row.cells[k], v = cell.dataset.v;
        return v === undefined ? cell.textContent : v === "" ? NaN : Number(v);
      };
      const body = table.tBodies[0];
      const order = (a, b) => {
        const x = key(a), y = key(b);
        if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y);
        return (x < y ? -1 : x > y ? 1 : 0) * (up ? 1 : -1);
      };
      body.append(...[...body.rows].sort(order));
      for (const other of th.parentNode.cells) other.removeAttribute("aria-sort");
      th.setAttribute("aria-sort", up ? "ascending" : "descending");
    });
  });
}
"""
