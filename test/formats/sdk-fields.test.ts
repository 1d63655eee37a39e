/** The reference's tables of what goes on as it came are true of the code, and whole by the client libraries' types. */
import { expect, test } from 'bun:test'
import { readTables, toTables } from '../sdk-fields.ts'
import { openSdkTypes } from '../support/sdk-types.ts'

test('every field and tool that the types of the client libraries have stands in the tables, with what the code does', async () => {
  const types = await openSdkTypes()
  const tables = await toTables(types)
  await types.close()
  expect(tables).toContain('`thread`')
  // `bun test/sdk-fields.ts` writes them and names what is new.
  expect(await readTables()).toBe(tables)
})
