//! The look of the pages: one style sheet, light and dark, from a phone's width up, and on paper.

pub(super) const STYLE: &str = "\
:root{color-scheme:light dark;--bg:#fff;--fg:#1c2127;--dim:#57606a;--line:#d0d7de;--card:#f6f8fa;--link:#0b5cad;\
--ok:#176f2c;--warning:#8a5a00;--critical:#b3261e;--bar:#2b6cb0;font:16px/1.5 system-ui,sans-serif}\
@media(prefers-color-scheme:dark){:root{--bg:#0f1318;--fg:#e6edf3;--dim:#9aa7b4;--line:#39424d;--card:#181e26;--link:#7ab7ff;\
--ok:#3fb950;--warning:#e3b341;--critical:#ff7b72;--bar:#6cb0f5}}\
body{max-width:80rem;margin:0 auto;padding:1rem;background:var(--bg);color:var(--fg)}\
a{color:var(--link)}h1{font-size:1.4rem;margin:.2rem 0}h2{font-size:1.15rem;margin:2rem 0 .5rem}h3{font-size:1rem;margin:.3rem 0}\
p,ul,ol,dl{margin:.4rem 0;overflow-wrap:anywhere}\
.dim,small,time{color:var(--dim);font-size:.875rem}\
.status{display:inline-block;padding:.05rem .6rem;border-radius:.3rem;color:#fff;background:#57606a;white-space:nowrap}\
.status.ok{background:#176f2c}.status.warning{background:#8a5a00}.status.critical{background:#b3261e}\
.status.info{background:#0b5cad}\
.step{border:.1rem solid var(--line);border-left:.3rem solid var(--link);border-radius:.3rem;padding:.2rem .8rem;background:var(--card)}\
article{border:.06rem solid var(--line);border-left:.3rem solid var(--line);border-radius:.3rem;padding:.3rem .8rem;margin:.8rem 0}\
article.critical{border-left-color:var(--critical)}article.warning{border-left-color:var(--warning)}\
article:target{outline:.15rem solid var(--link)}\
code,pre,dd{font-family:ui-monospace,monospace;font-size:.875rem}\
pre{background:var(--card);border:.06rem solid var(--line);border-radius:.3rem;padding:.4rem .6rem;overflow-x:auto}\
dt{font-weight:600}dd{margin:0 0 .4rem 0;overflow-wrap:anywhere}\
.facts{display:grid;grid-template-columns:max-content 1fr;gap:.1rem 1rem}.facts dd{font-family:inherit;margin:0}\
.wide{overflow-x:auto}table{border-collapse:collapse;width:100%}\
td,th{text-align:left;vertical-align:top;padding:.3rem .9rem .3rem 0;white-space:nowrap;border-bottom:.06rem solid var(--line)}\
td small{display:block;max-width:15rem;white-space:normal}small.warning{color:var(--warning)}small.critical{color:var(--critical)}\
.spark{display:block;background:var(--card)}.spark path{fill:var(--bar)}.spark .bad{fill:var(--critical)}\
summary{cursor:pointer;color:var(--link)}\
nav a{margin-right:.8rem}\
@media(max-width:40rem){body{padding:.6rem}.facts{grid-template-columns:1fr}.facts dd{margin-bottom:.4rem}}\
@media print{:root{color-scheme:light;--bg:#fff;--fg:#000;--dim:#444;--line:#aaa;--card:#fff;--link:#000;\
--ok:#176f2c;--warning:#8a5a00;--critical:#b3261e;--bar:#2b6cb0;font-size:12px}\
body{max-width:none;padding:0}nav{display:none}details::details-content{content-visibility:visible;block-size:auto}\
.wide,pre{overflow:visible}svg{max-width:100%;height:auto}pre,td,th{white-space:pre-wrap;overflow-wrap:anywhere}\
.status{print-color-adjust:exact}article,tr,svg{break-inside:avoid}h2,h3{break-after:avoid}}";
