// Renders the panels of a dashboard with the components of Grafana, from the answers of a Prometheus. Runs in a browser: `window.show(document)`
// fills the page, and `window.problems` has what is wrong.
//
// @grafana/ui has no transformations, field options and panels; what the dashboards need of them is registered
// here. The state timeline and the heatmap are not in @grafana/ui: their series are drawn as a time series.
import React from "react";
import { createRoot } from "react-dom/client";
import {
  EventBusSrv, FieldType, LoadingState, ThemeContext, applyFieldOverrides, cacheFieldDisplayNames, createDataFrame, createTheme, dateTime, getFieldDisplayValues,
  identityOverrideProcessor, standardEditorsRegistry, standardFieldConfigEditorRegistry, standardTransformers, standardTransformersRegistry,
  transformDataFrame, FieldConfigOptionsRegistry,
} from "@grafana/data";
import { BigValue, PanelChrome, PanelContextProvider, TimeSeries } from "@grafana/ui";
import { TableNG } from "@grafana/ui/unstable";
import { lastValueFrom } from "rxjs";

const COLUMN = 75, ROW = 38;
const theme = createTheme({ colors: { mode: "dark" } });
// The properties of a field that the dashboards set. Any other is a mistake.
const PROPERTIES = ["unit", "min", "max", "displayName", "noValue", "mappings", "thresholds", "color", "links"];
const CUSTOM = ["cellOptions", "align", "filterable", "drawStyle", "lineWidth", "fillOpacity", "showPoints", "spanNulls", "stacking",
  "lineInterpolation"];
const problems = (window.problems = []);

standardTransformersRegistry.setInit(() => [...new Set(Object.values(standardTransformers))].map((transformation) => (
  { id: transformation.id, name: transformation.name, transformation: () => Promise.resolve(transformation), editor: () => null })));
standardEditorsRegistry.setInit(() => []);
const property = (id, isCustom) => ({
  id: isCustom ? `custom.${id}` : id, path: id, name: id, isCustom, editor: () => null, override: () => null,
  process: identityOverrideProcessor, shouldApply: () => true, settings: {},
});
const properties = [...PROPERTIES.map((id) => property(id, false)), ...CUSTOM.map((id) => property(id, true))];
standardFieldConfigEditorRegistry.setInit(() => properties);
const registry = new FieldConfigOptionsRegistry(() => properties);

const number = (text) => (text === "+Inf" ? Infinity : text === "-Inf" ? -Infinity : Number(text));

/** The frame of an instant query with the format "table", as Grafana's data source makes it. */
function tableFrame(target, rows, alone) {
  const labels = [...new Set(rows.flatMap((row) => Object.keys(row.metric)))].sort();
  const text = (label) => ({ name: label, type: FieldType.string, values: rows.map((row) => row.metric[label] ?? "") });
  const value = { name: alone ? "Value" : `Value #${target.refId}`, type: FieldType.number, values: rows.map((row) => number(row.value[1])) };
  const time = { name: "Time", type: FieldType.time, values: rows.map((row) => row.value[0] * 1000) };
  return createDataFrame({ refId: target.refId, fields: [time, ...labels.map(text), value] });
}

function seriesFrame(target, row) {
  const points = row.values ?? [row.value];
  const legend = target.legendFormat === "__auto" ? undefined
    : target.legendFormat.replace(/{{\s*(\w+)\s*}}/g, (_, label) => row.metric[label] ?? "");
  return createDataFrame({ refId: target.refId, fields: [
    { name: "Time", type: FieldType.time, values: points.map((point) => point[0] * 1000), config: {} },
    { name: "Value", type: FieldType.number, labels: row.metric, values: points.map((point) => number(point[1])),
      config: { displayNameFromDS: legend } },
  ] });
}

/** Every variable of a link must be one that Grafana or the dashboard has. */
function replaceVariables(board, title) {
  const own = new Set(board.templating.list.map((variable) => variable.name));
  const builtIn = /^(__data\.fields\.\w+|__field\.labels\.\w+|__url_time_range|__value\.\w+|__rate_interval)$/;
  return (text, scoped) => String(text ?? "").replace(/\$\{([\w.]+)(?::\w+)?\}|\$(\w+)/g, (whole, braced, bare) => {
    const name = braced ?? bare;
    if (!own.has(name) && !builtIn.test(name)) problems.push(`${title}: the variable ${whole} is not known`);
    const field = name.startsWith("__data.fields.") && scoped?.__dataContext?.value;
    if (field) {
      const { frame, rowIndex } = field, wanted = name.slice("__data.fields.".length);
      const found = frame.fields.find((one) => one.name === wanted);
      if (!found) problems.push(`${title}: a link needs the column ${wanted}, which the table does not have`);
      return found?.values[rowIndex ?? 0] ?? "";
    }
    return name;
  });
}

async function prepared(board, panel, answers) {
  const tables = panel.targets.filter((target) => target.format === "table").length;
  const frames = panel.targets.flatMap((target, n) => {
    const rows = answers[n];
    if (target.format === "table") return rows.length ? [tableFrame(target, rows, tables === 1)] : [];
    return rows.map((row) => seriesFrame(target, row));
  });
  for (const { id } of panel.transformations) {
    if (!standardTransformersRegistry.getIfExists(id)) problems.push(`${panel.title}: no transformation ${id}`);
  }
  for (const { properties } of panel.fieldConfig.overrides) {
    for (const { id } of properties) {
      if (!registry.getIfExists(id)) problems.push(`${panel.title}: no property ${id}`);
    }
  }
  const context = { interpolate: replaceVariables(board, panel.title) };
  const transformed = await lastValueFrom(transformDataFrame(panel.transformations, frames, context));
  const fields = applyFieldOverrides({ data: transformed, fieldConfig: panel.fieldConfig, fieldConfigRegistry: registry, theme,
    timeZone: "utc", replaceVariables: replaceVariables(board, panel.title) });
  cacheFieldDisplayNames(fields);
  return fields;
}

/** The links of the first row or series are made, so that their variables are seen. */
function followLinks(panel, frames) {
  const found = [];
  for (const frame of frames.slice(0, 1)) {
    const field = frame.fields.find((one) => one.getLinks && one.type !== FieldType.time);
    for (const link of field?.getLinks({ valueRowIndex: 0 }) ?? []) found.push(link.href);
  }
  if (panel.fieldConfig.defaults.links.length && frames.length && !found.length) problems.push(`${panel.title}: no link is made`);
  return found;
}

class Guard extends React.Component {
  state = { failed: false };
  static getDerivedStateFromError() { return { failed: true }; }
  componentDidCatch(error) { problems.push(`${this.props.title}: ${error.stack.slice(0, 300)}`); }
  render() { return this.state.failed ? null : this.props.children; }
}

function Content({ panel, frames, width, height, range }) {
  const { options, fieldConfig } = panel;
  if (!frames.some((frame) => frame.length > 0)) return <div className="no-value">{fieldConfig.defaults.noValue}</div>;
  if (panel.type === "table") {
    const [frame] = frames;
    if (frames.length > 1) problems.push(`${panel.title}: Grafana would show one of ${frames.length} tables`);
    return <TableNG data={frame} width={width} height={height} noHeader={!options.showHeader} cellHeight={options.cellHeight}
      sortBy={options.sortBy} fieldConfig={fieldConfig} enableVirtualization={false} timeRange={range} theme={theme} />;
  }
  if (panel.type === "stat") {
    const values = getFieldDisplayValues({ fieldConfig, reduceOptions: options.reduceOptions, replaceVariables: (text) => text, theme,
      data: frames, timeZone: "utc" });
    return <div style={{ display: "flex" }}>{values.map(({ display }, n) => (
      <div key={n} data-colour={display.color}><BigValue value={display} width={width / values.length} height={height} theme={theme} colorMode={options.colorMode}
        graphMode={options.graphMode} justifyMode={options.justifyMode} textMode={options.textMode} count={values.length} /></div>))}</div>;
  }
  const legend = options.legend.showLegend === undefined ? { ...options.legend, showLegend: false, displayMode: "list", calcs: [] } : options.legend;
  return <TimeSeries frames={frames} width={width} height={height} timeRange={range} timeZone="utc" legend={legend} options={options} />;
}

window.show = async ({ board, start, end, answers }) => {
  const range = { from: dateTime(start * 1000), to: dateTime(end * 1000), raw: { from: "now-1m", to: "now" } };
  const panels = board.panels.filter((panel) => panel.type !== "row");
  const drawn = [];
  for (const [n, panel] of panels.entries()) {
    const frames = await prepared(board, panel, answers[n]);
    followLinks(panel, frames);
    drawn.push({ panel, frames });
  }
  const style = ({ x, y, w, h }) => ({ position: "absolute", left: x * COLUMN, top: y * ROW, width: w * COLUMN - 8, height: h * ROW - 8 });
  const rows = board.panels.filter((panel) => panel.type === "row");
  const bottom = Math.max(...board.panels.map(({ gridPos }) => gridPos.y + gridPos.h));
  document.body.style.cssText = `margin:0;background:${theme.colors.background.canvas};color:${theme.colors.text.primary};font-family:Inter,sans-serif;font-size:13px`;
  // As Grafana's global style does.
  document.head.insertAdjacentHTML("beforeend", "<style>button { color: inherit; background: none; border: 0; font: inherit }</style>");
  const root = document.getElementById("root");
  root.style.cssText = `position:relative;width:${24 * COLUMN}px;height:${bottom * ROW}px`;
  createRoot(root).render(
    <ThemeContext.Provider value={theme}>
      <PanelContextProvider value={{ eventsScope: "all", eventBus: new EventBusSrv() }}>
        {rows.map((row) => <div key={row.id} style={{ ...style(row.gridPos), fontSize: 16, paddingTop: 6 }}>{row.title}</div>)}
        {drawn.map(({ panel, frames }) => {
          const box = style(panel.gridPos);
          return (
            <div key={panel.id} className="panel" data-title={panel.title} style={box}>
              <Guard title={panel.title}>
                <PanelChrome title={panel.title} description={panel.description} width={box.width} height={box.height}
                  loadingState={LoadingState.Done}>
                  {(width, height) => (
                    <div className="content" style={{ width, height, overflow: "hidden" }}>
                      <Guard title={panel.title}><Content panel={panel} frames={frames} width={width} height={height} range={range} /></Guard>
                    </div>)}
                </PanelChrome>
              </Guard>
            </div>);
        })}
      </PanelContextProvider>
    </ThemeContext.Provider>);
};
