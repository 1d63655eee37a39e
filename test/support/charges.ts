/** Checks that every charge in a ledger can be recalculated from its record. */
import { Database } from 'bun:sqlite'
import { type RequestCharge, readCharge } from '../../src/ledger/charge.ts'
import { createReaders } from '../../src/store/sqlite/readers.ts'

export async function findWrongCharges(path: string): Promise<RequestCharge[]> {
  const sqlite = new Database(path, { readonly: true })
  try {
    const reader = createReaders(sqlite).requests
    const { rows } = await reader.slice({}, null, 100_000, 100_000)
    const charges = await Promise.all(rows.map((row) => readCharge(reader, row)))
    return charges.filter(({ matchesLedger }) => matchesLedger === false)
  } finally {
    sqlite.close()
  }
}

export async function expectCharges(path: string): Promise<void> {
  const wrong = await findWrongCharges(path)
  if (wrong.length === 0) return
  throw new Error(`${wrong.length} charges do not come out: ${JSON.stringify(wrong.slice(0, 3), null, 2)}`)
}
