/** From one state of the catalogue's rows to another, as a write; and what a write leaves behind. Pure. */
import type { CatalogRows, CatalogWrite, TableWrite } from '../store/catalog-rows.ts'
import { KINDS, type Kind } from './rows-as-entries.ts'

export const NO_ROWS: CatalogRows = { upstreams: [], models: [], routes: [], aliases: [] }

/** What makes the rows what they were in another state, owners included. Its prices are on record: rows come back with theirs. */
export function toStateWrite(current: CatalogRows, wanted: CatalogRows, nowMs: number): CatalogWrite {
  return {
    upstreams: toTableWrite(current.upstreams, touch(wanted.upstreams, nowMs), KINDS.upstreams),
    models: toTableWrite(current.models, touch(wanted.models, nowMs), KINDS.models),
    routes: toTableWrite(current.routes, wanted.routes, KINDS.routes),
    aliases: toTableWrite(current.aliases, wanted.aliases, KINDS.aliases),
    prices: [],
  }
}

const touch = <Row extends object>(rows: Row[], updatedMs: number) => rows.map((row) => ({ ...row, updatedMs }))

function toTableWrite<Row extends object>(current: Row[], wanted: Row[], { nameOf }: Kind<Row>): TableWrite<Row> {
  const before = new Map(current.map((row) => [nameOf(row), row]))
  const names = new Set(wanted.map(nameOf))
  const isNew = (row: Row) => !before.has(nameOf(row))
  const isOther = (row: Row) => {
    const existing = before.get(nameOf(row))
    return existing !== undefined && !isSameRow(existing, row)
  }
  return {
    create: wanted.filter(isNew),
    update: wanted.filter(isOther),
    delete: current.filter((row) => !names.has(nameOf(row))),
  }
}

/** Whether two rows say the same; when they were last written does not count. */
export const isSameRow = (one: object, other: object) =>
  Bun.deepEquals({ ...one, updatedMs: 0 }, { ...other, updatedMs: 0 })

/** Whether a write changes nothing. */
export const isIdle = ({ upstreams, models, routes, aliases }: CatalogWrite): boolean =>
  [upstreams, models, routes, aliases].every((table) => Object.values(table).every((rows) => rows.length === 0))

/** The rows as they stand once a write is done. Routes that go with what they lead to are among its deletions. */
export function toRowsAfter(rows: CatalogRows, write: CatalogWrite): CatalogRows {
  return {
    upstreams: toTableAfter(rows.upstreams, write.upstreams, KINDS.upstreams),
    models: toTableAfter(rows.models, write.models, KINDS.models),
    routes: toTableAfter(rows.routes, write.routes, KINDS.routes),
    aliases: toTableAfter(rows.aliases, write.aliases, KINDS.aliases),
  }
}

function toTableAfter<Row>(rows: Row[], write: TableWrite<Row>, { nameOf }: Kind<Row>): Row[] {
  const gone = new Set(write.delete.map(nameOf))
  const updated = new Map(write.update.map((row) => [nameOf(row), row]))
  const staying = rows.filter((row) => !gone.has(nameOf(row))).map((row) => updated.get(nameOf(row)) ?? row)
  return [...staying, ...write.create]
}

/** What a refusal shows of a catalog, which may have thousands of rows. */
export const toCatalogSize = ({ upstreams, models, routes, aliases }: CatalogRows) => ({
  ...{ upstreams: upstreams.length, models: models.length, routes: routes.length, aliases: aliases.length },
})
