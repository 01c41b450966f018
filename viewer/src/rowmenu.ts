/** What a right click on a row's name offers. */

import type { App } from "./app";
import { AGAIN } from "./data";
import type { LaneRef, Panels } from "./panels/panels";
import { FIRST_LEVELS, type Row } from "./layout";
import { showMenu, type Item } from "./menu";
import { t } from "./i18n";

function openAll(app: App, r: Row, open: boolean): void {
  app.setOpen(r, open);
  for (const c of r.children) openAll(app, c, open);
}

/** Hide everything that is neither this row, nor above it, nor below it. */
export function only(app: App, row: Row): void {
  const keep = new Set<string>();
  for (let p: Row | undefined = row; p; p = app.rows.byKey.get(p.parentKey)) keep.add(p.key);
  const walk = (list: Row[]): void => {
    for (const x of list) {
      if (!keep.has(x.key)) app.setHidden(x, true);
      else if (x !== row) walk(x.children);
    }
  };
  walk(app.rows.roots);
}

export function rowMenu(app: App, panels: Panels, row: Row, x: number, y: number): void {
  const done = (f: () => void) => (): void => {
    f();
    app.layoutRows();
  };
  /*
   * Rows that show again what others have are left out of a group, or each event would count
   * twice.
   */
  const under = app.rows.lanesUnder(row),
    without = (types: string[]): LaneRef[] => {
      const rest = under.filter((l) => !types.includes(l.type));
      return (rest.length ? rest : under).map((l) => ({ report: l.report, lane: l.lane! }));
    };
  const items: Item[] = [
    [
      t("show_in_events"),
      () => panels.showEvents(without(AGAIN), row.of !== undefined ? (row.label ?? "") : undefined),
    ],
    [t("stats_row"), () => panels.showStatistics(without(["stream", "cpu"]))],
    null,
    [t("hide_row"), done(() => app.setHidden(row, true))],
    [t("only_row"), done(() => only(app, row))],
    [t("show_all_rows"), done(() => app.rows.hiddenRows().forEach((r) => app.setHidden(r, false)))],
    [row.pinned ? t("unpin_row") : t("pin_row"), done(() => app.setPinned(row, !row.pinned))],
    null,
    [
      t("move_up"),
      done(() => {
        app.rows.move(row, -1);
        app.store();
      }),
    ],
    [
      t("move_down"),
      done(() => {
        app.rows.move(row, 1);
        app.store();
      }),
    ],
    [t("taller"), done(() => app.setHeight(row, row.height * 1.5))],
    [t("lower"), done(() => app.setHeight(row, row.height / 1.5))],
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
      done(() => {
        app.stored.full[row.key] = !full;
        app.setOpen(row, true);
      }),
    ]);
  }
  if (row.children.length)
    items.push(
      null,
      [t("expand_all"), done(() => openAll(app, row, true))],
      [t("collapse_all"), done(() => openAll(app, row, false))],
    );
  if (row.type === "report" || app.reports.length > 1)
    items.push(
      null,
      ...app
        .alignments()
        .map((how): Item => [`${t("align")}: ${t(`align_${how}`)}`, () => app.align(how)]),
    );
  showMenu(x, y, items);
}
