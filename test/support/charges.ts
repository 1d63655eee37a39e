/** Holds a ledger to this: every charge can be worked out again from what is on record. */
import { Database } from 'bun:sqlite'
import { readCharge } from '../../src/ledger/charge.ts'
import { createRequestReader } from '../../src/store/sqlite/request-reader.ts'

/** Throws, with all that is on record of them, where some charges do not come out. */
export function expectCharges(path: string): void {
  const sqlite = new Database(path, { readonly: true })
  try {
    const reader = createRequestReader(sqlite)
    const { rows } = reader.slice({}, null, 100_000, 100_000)
    const wrong = rows.map((row) => readCharge(reader, row)).filter(({ agrees }) => agrees === false)
    if (wrong.length > 0)
      throw new Error(`${wrong.length} charges do not come out: ${JSON.stringify(wrong.slice(0, 3), null, 2)}`)
  } finally {
    sqlite.close()
  }
}
