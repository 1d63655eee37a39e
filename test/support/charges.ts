/** Holds a ledger to this: every charge can be worked out again from what is on record. */
import { Database } from 'bun:sqlite'
import { type RequestCharge, readCharge } from '../../src/ledger/charge.ts'
import { createRequestReader } from '../../src/store/sqlite/request-reader.ts'

/** Those that cannot be, with all that is on record of them. */
export async function findWrongCharges(path: string): Promise<RequestCharge[]> {
  const sqlite = new Database(path, { readonly: true })
  try {
    const reader = createRequestReader(sqlite)
    const { rows } = await reader.slice({}, null, 100_000, 100_000)
    const charges = await Promise.all(rows.map((row) => readCharge(reader, row)))
    return charges.filter(({ matchesLedger }) => matchesLedger === false)
  } finally {
    sqlite.close()
  }
}

/** Throws where there are any. */
export async function expectCharges(path: string): Promise<void> {
  const wrong = await findWrongCharges(path)
  if (wrong.length === 0) return
  throw new Error(`${wrong.length} charges do not come out: ${JSON.stringify(wrong.slice(0, 3), null, 2)}`)
}
