/** How long a call to an upstream may take: the one list of deadlines, from which file, API, commands and pages have their names. */

/**
 * Each deadline: its field in a catalog's `deadlines`, its word in tables, what pages say of it, and its default in ms. A whole response
 * has only `totalWhole`.
 */
export const DEADLINES = {
  headers: { field: 'headers', word: 'headers', told: 'headers', ms: 60_000 },
  firstToken: { field: 'first_token', word: 'first token', told: 'first token', ms: 300_000 },
  idle: { field: 'idle', word: 'idle', told: 'between tokens', ms: 120_000 },
  total: { field: 'total', word: 'total', told: 'all of a stream', ms: 3_600_000 },
  totalWhole: { field: 'total_whole', word: 'whole', told: 'of a whole answer', ms: 600_000 },
} as const

type Deadline = keyof typeof DEADLINES
type Field<Name extends Deadline = Deadline> = (typeof DEADLINES)[Name]['field']

/** In ms. */
export type Deadlines = Record<Deadline, number>

/** As the admin API and `--json` have them: `headers_ms`, … */
export type DeadlineMs<Value = number> = Record<`${Field}_ms`, Value>

export const DEADLINE_NAMES = Object.keys(DEADLINES).filter((name): name is Deadline => Object.hasOwn(DEADLINES, name))

const from = <Key extends string, Value>(toEntry: (name: Deadline) => readonly [Key, Value]) =>
  Object.fromEntries(DEADLINE_NAMES.map(toEntry)) as Record<Key, Value>

export const DEFAULT_DEADLINES: Deadlines = from((name) => [name, DEADLINES[name].ms])

/** A local server may load a model before it sends its headers. */
export const LOCAL_HEADERS_MS = 300_000

/** Under the names of a catalog's file. */
export const byField = <Value>(toValue: (name: Deadline) => Value): Record<Field, Value> =>
  from((name) => [DEADLINES[name].field, toValue(name)])

/** Under the names of the admin API. */
export const byMsField = <Value>(toValue: (name: Deadline) => Value): DeadlineMs<Value> =>
  from((name) => [`${DEADLINES[name].field}_ms`, toValue(name)])

/** The other way round: what is left out stays so. */
export const fromMsFields = <Value>(given: Partial<DeadlineMs<Value>>): Partial<Record<Deadline, Value>> =>
  Object.fromEntries(
    DEADLINE_NAMES.flatMap((name): [Deadline, Value][] => {
      const value = given[`${DEADLINES[name].field}_ms`]
      return value === undefined ? [] : [[name, value]]
    }),
  )
