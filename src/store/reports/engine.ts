/** Database interface for report readers. Statements have numbered parameters: `?1`, `?2`. */
import { timeOfId } from '../../domain/id.ts'
import type { Histogram } from '../histogram.ts'
import { toIdAfter } from './columns.ts'

export type Value = string | number | bigint | Uint8Array | null
export type Given = string | number

export interface Engine {
  readonly dialect: Dialect
  rows<Row>(sql: string, values: readonly Given[]): Promise<Row[]>
  /** Values in the order of the columns, which need names. */
  lists(sql: string, values: readonly Given[]): Promise<Value[][]>
  /** Time since which no request was removed; 0 if none ever was. */
  keptFromMs(): Promise<number>
}

export interface Dialect {
  /** A column of IDs as 32 hex digits. */
  toId(column: string): string
  /** Parameter value for comparisons with IDs: a prefix, `AFTER_ALL`, or both. */
  toBound(text: string): string
  /** Additional columns of requests. */
  ofRequests: string
  endsWith(column: string, parameter: string, length: number): string
  /** Condition for a pattern with `*`. */
  matches(column: string, parameter: string): string
  toPattern(pattern: string): string
  /** Expression for the text of a stored histogram, … */
  toText(column: string): string
  /** … or of the total of many. */
  addUp(column: string): string
  readText(text: string): Histogram
  /** Text of a histogram of a column of ms; null if rows are read one by one instead. */
  countDurations: ((column: string) => string) | null
}

export interface Parameters {
  readonly values: Given[]
  /** Returns the parameter's number in the statement. */
  add(value: Given): string
  /** Returns a list for `IN`. */
  addAll(values: readonly Given[]): string
}

/** @param before number of earlier parameters */
export function createParameters(before = 0): Parameters {
  const values: Given[] = []
  const add = (value: Given) => `?${values.push(value) + before}`
  return { values, add, addAll: (all) => `(${all.map(add).join(', ')})` }
}

export const toNamed = (columns: readonly string[]) => columns.map((sql, i) => `${sql} AS c${i}`).join(', ')

/** Ranges of request IDs that end with a whole step, without empty ones: they limit the rows that a statement with a selective filter scans. */
export async function* sliceIds(
  { dialect, rows }: Pick<Engine, 'dialect' | 'rows'>,
  from: string,
  end: string,
  stepMs: number,
): AsyncGenerator<[first: string, stop: string]> {
  const sql = `SELECT ${dialect.toId('id')} AS id FROM requests WHERE id >= ?1 AND id < ?2 ORDER BY requests.id LIMIT 1`
  for (let at = from; ; ) {
    const [found] = await rows<{ id: string }>(sql, [dialect.toBound(at), dialect.toBound(end)])
    if (!found) return
    const ms = timeOfId(found.id)
    const [stop = end] = [toIdAfter(ms - (ms % stepMs) + stepMs), end].sort()
    yield [at, stop]
    at = stop
  }
}
