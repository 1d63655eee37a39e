/** What is to be written to the catalogue's tables, told for people and for the audit: row by row and field by field. Pure. */
import { type Difference, type Fields, toDifference } from '../domain/changes.ts'
import type { Origin } from '../domain/models.ts'
import type { CatalogRows, CatalogWrite, TableWrite } from '../store/catalog-rows.ts'
import { KINDS, type Kind } from './rows-as-entries.ts'

/** A row that is made, deleted, or says something else, under the names that its fields have in the file. */
export interface Change extends Difference {
  action: 'create' | 'update' | 'delete'
  /** Such as `upstreams.openai` or `models.v/m: route u (m)`. */
  name: string
  /** Whose it was; of a row that is made, whose it is. */
  origin: Origin
}

/** A row that says what it said, and has another owner. */
export interface Adoption {
  name: string
  before: Origin
  after: Origin
}

export interface Changes {
  changes: Change[]
  adoptions: Adoption[]
}

/** Tells what a write changes in the rows that there are: upstreams, models, routes and aliases, in this order. */
export function toChanges(current: CatalogRows, write: CatalogWrite): Changes {
  const told: Changes = { changes: [], adoptions: [] }
  tell(current.upstreams, write.upstreams, KINDS.upstreams, told)
  tell(current.models, write.models, KINDS.models, told)
  tell(current.routes, write.routes, KINDS.routes, told)
  tell(current.aliases, write.aliases, KINDS.aliases, told)
  return told
}

function tell<Row extends { origin: Origin }>(
  current: Row[],
  write: TableWrite<Row>,
  { nameOf, fieldsOf }: Kind<Row>,
  { changes, adoptions }: Changes,
): void {
  const before = new Map(current.map((row) => [nameOf(row), row]))
  const fields = (row: Row) => withoutNull(fieldsOf(row))
  for (const row of write.create)
    changes.push({ action: 'create', name: nameOf(row), origin: row.origin, before: {}, after: fields(row) })
  for (const row of write.update) {
    const name = nameOf(row)
    const old = before.get(name) ?? row
    const difference = toDifference(fields(old), fields(row))
    const owners = toDifference({ origin: old.origin }, { origin: row.origin })
    if (!difference) adoptions.push({ name, before: old.origin, after: row.origin })
    else
      changes.push({
        action: 'update',
        name,
        origin: old.origin,
        before: { ...difference.before, ...owners?.before },
        after: { ...difference.after, ...owners?.after },
      })
  }
  for (const row of write.delete)
    changes.push({ action: 'delete', name: nameOf(row), origin: row.origin, before: fields(row), after: {} })
}

/** A field that says nothing is none. */
export const withoutNull = (fields: Fields): Fields =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null))

/** Over all rows of upstreams, models, routes and aliases. */
export interface Counts {
  created: number
  updated: number
  deleted: number
  /** Rows that say what they said, and have another owner. */
  adopted: number
  unchanged: number
}

/** Counts what a write changes. */
export function toCounts(current: CatalogRows, { changes, adoptions }: Changes): Counts {
  const of = (action: Change['action']) => changes.filter((change) => change.action === action).length
  const [created, updated, deleted] = [of('create'), of('update'), of('delete')]
  const adopted = adoptions.length
  const before = Object.values(current).reduce((total, rows) => total + rows.length, 0)
  return { created, updated, deleted, adopted, unchanged: before - updated - deleted - adopted }
}
