/** The ledger's statements take a row as positions, in the order of a list of its fields. */

export type Value = string | number | null

export function values<T extends string>(row: Record<T, Value>, fields: readonly T[]): Value[] {
  const out = new Array<Value>(fields.length)
  for (let i = 0; i < fields.length; i++) out[i] = row[fields[i] as T]
  return out
}

export const marks = (fields: readonly unknown[]) => fields.map(() => '?').join(', ')
