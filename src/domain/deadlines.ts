/** Timeouts of upstream calls. */

/** Field in catalog files, CLI word, dashboard label, and default in ms. Without streaming only `totalWhole` applies. */
export const DEADLINES = {
  headers: { field: 'headers', word: 'headers', label: 'headers', ms: 60_000 },
  firstToken: { field: 'first_token', word: 'first token', label: 'first token', ms: 300_000 },
  idle: { field: 'idle', word: 'idle', label: 'between tokens', ms: 120_000 },
  total: { field: 'total', word: 'total', label: 'total (streaming)', ms: 3_600_000 },
  totalWhole: { field: 'total_whole', word: 'non-streaming', label: 'total (not streaming)', ms: 600_000 },
} as const

type Deadline = keyof typeof DEADLINES
type Field<Name extends Deadline = Deadline> = (typeof DEADLINES)[Name]['field']

/** In ms. */
export type Deadlines = Record<Deadline, number>

/** `headers_ms`, … */
export type DeadlineMs<Value = number> = Record<`${Field}_ms`, Value>

export const DEADLINE_NAMES = Object.keys(DEADLINES).filter((name): name is Deadline => Object.hasOwn(DEADLINES, name))

const from = <Key extends string, Value>(toEntry: (name: Deadline) => readonly [Key, Value]) =>
  Object.fromEntries(DEADLINE_NAMES.map(toEntry)) as Record<Key, Value>

export const DEFAULT_DEADLINES: Deadlines = from((name) => [name, DEADLINES[name].ms])

/** A local server may load a model before it sends headers. */
export const LOCAL_HEADERS_MS = 300_000

export const byField = <Value>(toValue: (name: Deadline) => Value): Record<Field, Value> =>
  from((name) => [DEADLINES[name].field, toValue(name)])

export const byMsField = <Value>(toValue: (name: Deadline) => Value): DeadlineMs<Value> =>
  from((name) => [`${DEADLINES[name].field}_ms`, toValue(name)])

/** The inverse of `byMsField`. */
export const fromMsFields = <Value>(given: Partial<DeadlineMs<Value>>): Partial<Record<Deadline, Value>> =>
  Object.fromEntries(
    DEADLINE_NAMES.flatMap((name): [Deadline, Value][] => {
      const value = given[`${DEADLINES[name].field}_ms`]
      return value === undefined ? [] : [[name, value]]
    }),
  )
