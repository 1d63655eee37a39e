/**
 * Changes of the catalogue row by row: planned or written, with the audit row and the state that is kept of it. What is changed by hand
 * becomes the administrator's, over whom no file wins. The services beside it (`edit-model.ts`, `edit-route.ts`, `edit-upstream.ts`)
 * decide; the admin API calls them.
 */
import { type AuditAction, requireRevision } from '../domain/changes.ts'
import { ServiceError } from '../domain/service-error.ts'
import type { CatalogRows, CatalogWrite } from '../store/catalog-rows.ts'
import type { Actor, ConfigStore } from '../store/config-store.ts'
import { explain, toPath } from '../validation/explain.ts'
import { type Change, type Changes, type Counts, toChanges, toCounts } from './changes.ts'
import { checkCatalog, toIssue } from './check.ts'
import { toDetail } from './detail.ts'
import type { Issue } from './entry.ts'
import { withVersions } from './history.ts'
import { KINDS } from './rows-as-entries.ts'
import { toFileEntries } from './rows-as-file.ts'
import { CatalogSchema } from './shape.ts'
import { isIdle } from './states.ts'

export interface EditBy extends Actor {
  /** Whether it is only to be told what would change. */
  isPlan?: boolean
}

export interface Edited extends Changes, Counts {
  /** The number of the state that this made; null where no row of it was changed. */
  version: number | null
}

export interface Decision {
  write: CatalogWrite
  /** What is changed beside the rows, as one field of a row that it is told with. */
  aside?: Pick<Change, 'name' | 'origin' | 'before' | 'after'> | null
  settings?: Readonly<Record<string, string>>
}

export const NO_WRITE: CatalogWrite = {
  upstreams: { create: [], update: [], delete: [] },
  models: { create: [], update: [], delete: [] },
  routes: { create: [], update: [], delete: [] },
  aliases: { create: [], update: [], delete: [] },
  prices: [],
}

/** Does what is decided over the rows, or tells what that would be. What the decision throws reaches the caller. */
export async function editCatalog(
  store: ConfigStore,
  { isPlan = false, ...by }: EditBy,
  record: { action: AuditAction; subject: string },
  decide: (rows: CatalogRows) => Decision,
): Promise<Edited> {
  if (isPlan) {
    const rows = await store.readCatalog()
    return { ...tell(rows, decide(rows)), version: null }
  }
  return store.changeCatalog<Edited>(by, (rows, history) => {
    const decision = decide(rows)
    const told = tell(rows, decision)
    if (told.changes.length + told.adoptions.length === 0) return { value: { ...told, version: null }, change: null }
    // A credential alone is no state of the catalogue.
    const kept = isIdle(decision.write)
      ? { version: null, write: decision.write }
      : withVersions(rows, decision.write, { ...by, ...record }, history)
    const detail = { version: kept.version, ...toDetail(told) }
    const { settings = {} } = decision
    return { value: { ...told, version: kept.version }, settings, change: { ...record, detail, write: kept.write } }
  })
}

function tell(rows: CatalogRows, { write, aside = null }: Decision): Changes & Counts {
  const told = toChanges(rows, write)
  if (aside !== null) {
    const own = told.changes.find(({ name }) => name === aside.name)
    const others = told.changes.filter((change) => change !== own)
    const merged: Change = {
      ...(own ?? { action: 'update', name: aside.name, origin: aside.origin }),
      before: { ...own?.before, ...aside.before },
      after: { ...own?.after, ...aside.after },
    }
    told.changes = [merged, ...others]
    told.adoptions = told.adoptions.filter(({ name }) => name !== aside.name)
  }
  return { ...told, ...toCounts(rows, told) }
}

/** Throws `revision_conflict` where the row that a change is of is another one than it was made from. */
export function requireRow<Table extends keyof CatalogRows>(
  by: EditBy,
  table: Table,
  row: CatalogRows[Table][number],
): void {
  const { nameOf, fieldsOf } = KINDS[table]
  requireRevision(by, nameOf(row), row, fieldsOf(row))
}

/** What of a catalogue is looked at: a section, the name in it, and a part of that. */
export type At = Issue['segments']

/**
 * Throws `invalid` for the first rule that rows would break in a file, with the field within the part that is looked at.
 *
 * @param rows all that the part says something of, as they would be.
 * @param toField what a field is called by whoever changes it; '' is all of it.
 */
export function requireValid(rows: CatalogRows, at: At, toField = (path: string) => path): void {
  const raw = toFileEntries(rows)
  const issues = [...explain(CatalogSchema, raw, { all: true }).map(toIssue), ...checkCatalog(raw, {}, NO_WILDCARDS)]
  const found = issues.find(({ segments }) => at.every((segment, index) => segments[index] === segment))
  if (!found) return
  const field = toField(toPath(found.segments.slice(at.length)))
  throw new ServiceError(
    { kind: 'invalid', field },
    field === '' ? `This is invalid: ${found.message}` : `The field ${field} is invalid: ${found.message}`,
  )
}

const NO_WILDCARDS = { models: [], issues: [] }
