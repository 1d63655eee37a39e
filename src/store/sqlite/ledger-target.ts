/** The ledger of a data folder as the target of a copy. */
import type { Database } from 'bun:sqlite'
import { columnsOf, isHistogram, type LedgerTarget } from '../ledger-copy.ts'
import { createLedgerCopy } from '../reports/ledger-copy.ts'
import { createEngine } from './engine.ts'
import { placeholders } from './ledger-schema.ts'
import { moveLedgerFrom } from './prune.ts'

export function createLedgerTarget(sqlite: Database): LedgerTarget {
  return {
    ...createLedgerCopy(createEngine(sqlite)),
    async putSums(table, rows) {
      const columns = columnsOf(table)
      const put = sqlite.query(
        `INSERT OR REPLACE INTO ${table} (${columns.join(', ')}) VALUES (${placeholders(columns)})`,
      )
      // SQLite converts texts to numbers by column type.
      const toValue = (text: string, i: number) => (isHistogram(columns[i] ?? '') ? toJson(text) : text)
      sqlite.transaction(() => {
        for (const row of rows) put.run(...row.map(toValue))
      })()
    },
    keepFrom: async (ms) => moveLedgerFrom(sqlite, ms, 0),
  }
}

/** `12:3,13:1` to `{"12":3,"13":1}`. */
const toJson = (text: string) => `{${text.replace(/(\d+):/g, '"$1":')}}`
