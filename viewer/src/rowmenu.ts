/** What a right click on a row's name offers. */

import type { App } from "./app";
import { AGAIN } from "./data";
import type { LaneRef, Panels } from "./panels/panels";
import { FIRST_LEVELS, type Row } from "./layout";
import { showMenu, type Item } from "./menu";
import { t } from "./i18n";

function openAll(app: App, row: Row, open: boolean): void {
  app.setOpen(row, open);
  for (const line of row.children) openAll(app, line, open);
}

/** Hide everything that is neither this row, nor above it, nor below it. */
export function showOnly(app: App, row: Row): void {
  const keep = new Set<string>();
  for (let line: Row | undefined = row; line; line = app.rows.byKey.get(line.parentKey))
    keep.add(line.key);
  const walkRows = (list: Row[]): void => {
    for (const x of list) {
      if (!keep.has(x.key)) app.setHidden(x, true);
      else if (x !== row) walkRows(x.children);
    }
  };
  walkRows(app.rows.roots);
}

export function rowMenu(app: App, panels: Panels, row: Row, x: number, y: number): void {
  const thenLayout = (callback: () => void) => (): void => {
    callback();
    app.layoutRows();
  };
  /*
   * Rows that show again what others have are left out of a group, or each event would count
   * twice.
   */
  const under = app.rows.lanesUnder(row),
    lanesWithout = (types: string[]): LaneRef[] => {
      const rest = under.filter((row) => !types.includes(row.type));
      return (rest.length ? rest : under).map((line) => ({
        report: line.report,
        lane: line.lane!,
      }));
    };
  const items: Item[] = [
    [
      t("show_in_events"),
      () =>
        panels.showEvents(
          lanesWithout(AGAIN),
          row.of !== undefined ? (row.label ?? "") : undefined,
        ),
    ],
    [t("stats_row"), () => panels.showStatistics(lanesWithout(["stream", "cpu"]))],
    null,
    [t("hide_row"), thenLayout(() => app.setHidden(row, true))],
    [t("only_row"), thenLayout(() => showOnly(app, row))],
    [
      t("show_all_rows"),
      thenLayout(() => app.rows.hiddenRows().forEach((row) => app.setHidden(row, false))),
    ],
    [row.pinned ? t("unpin_row") : t("pin_row"), thenLayout(() => app.setPinned(row, !row.pinned))],
    null,
    [
      t("move_up"),
      thenLayout(() => {
        app.rows.moveRow(row, -1);
        app.storeState();
      }),
    ],
    [
      t("move_down"),
      thenLayout(() => {
        app.rows.moveRow(row, 1);
        app.storeState();
      }),
    ],
    [t("taller"), thenLayout(() => app.setHeight(row, row.height * 1.5))],
    [t("lower"), thenLayout(() => app.setHeight(row, row.height / 1.5))],
    {
      label: t("color_row"),
      now: app.stored.colors[row.key],
      pick: (c) => app.setRowColor(row, c),
    },
  ];
  if (row.lane !== undefined && (row.levels ?? 1) > FIRST_LEVELS) {
    const full = app.stored.full[row.key] ?? false;
    items.push([
      full ? t("few_levels") : t("all_levels", row.levels ?? 1),
      thenLayout(() => {
        app.stored.full[row.key] = !full;
        app.setOpen(row, true);
      }),
    ]);
  }
  if (row.children.length)
    items.push(
      null,
      [t("expand_all"), thenLayout(() => openAll(app, row, true))],
      [t("collapse_all"), thenLayout(() => openAll(app, row, false))],
    );
  if (row.type === "report" || app.reports.length > 1)
    items.push(
      null,
      ...app
        .listAlignments()
        .map((how): Item => [`${t("align")}: ${t(`align_${how}`)}`, () => app.alignReports(how)]),
    );
  showMenu(x, y, items);
}
