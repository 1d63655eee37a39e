/** A command's output is complete before its process ends, and a command ends even if no one reads it. */
import { expect, test } from 'bun:test'
import { closeSync, constants, openSync } from 'node:fs'
import { join } from 'node:path'
import { decideKey } from '../../src/keys/service.ts'
import { openForCommand } from '../../src/store/sqlite/open.ts'
import { createBench } from '../cli/run.ts'
import { forEachTest } from '../support/lifetime.ts'

const MAIN = join(import.meta.dir, '../../src/main.ts')
const KEYS = 1_000
const bench = forEachTest(createBench)

async function addKeys(): Promise<void> {
  const { sqlite, store } = openForCommand(bench.folder)
  await store.changeKeys({ actor: 'cli', nowMs: 0 }, (rows) => {
    const made = Array.from({ length: KEYS }, (_, i) =>
      decideKey(rows, { name: `key ${i}` }, { actor: 'cli', nowMs: i }),
    )
    const keys = made.map(({ value }) => value.key)
    return { value: null, change: { action: 'keys.create', subject: 'all', detail: {}, write: { keys } } }
  })
  sqlite.close()
}

/** Runs `keys list --json` into a shell command. */
async function listInto(reader: string) {
  const script = `{ "$0" "$1" keys list --json; echo "ended $?" >&2; } | ${reader}`
  const child = Bun.spawn(['sh', '-c', script, process.execPath, MAIN], {
    env: { ...process.env, TOLLGATE_DATA: bench.folder },
    stdout: 'pipe',
    stderr: 'pipe',
    timeout: 20_000,
  })
  const [stdout, stderr] = await Promise.all([child.stdout.text(), child.stderr.text()])
  return { stdout, stderr }
}

test('output larger than a pipe reaches a slow reader, and a reader that closes is no error', async () => {
  await addKeys()
  const slow = await listInto('{ sleep 1; cat; }')
  expect(slow.stdout.length).toBeGreaterThan(2 * 64 * 1024)
  expect(JSON.parse(slow.stdout).keys).toHaveLength(KEYS)
  expect(slow.stderr).toBe('ended 0\n')
  expect((await listInto('head -c 10')).stderr).toBe('ended 0\n')
})

test('a write error is reported, and fails the command', async () => {
  const script = '"$0" "$1" keys create --name dev > /dev/full'
  const child = Bun.spawn(['sh', '-c', script, process.execPath, MAIN], {
    env: { ...process.env, TOLLGATE_DATA: bench.folder },
    stderr: 'pipe',
    timeout: 20_000,
  })
  expect(await child.stderr.text()).toMatch(/^error: Output may be lost: write failed.*no space left/m)
  expect(await child.exited).toBe(1)
})

test('a command ends with its code even if no one reads its standard error', async () => {
  const path = join(bench.folder, 'unread')
  Bun.spawnSync(['mkfifo', path])
  const unread = openSync(path, constants.O_RDWR)
  try {
    const child = Bun.spawn([process.execPath, MAIN, 'x'.repeat(120_000)], { stderr: unread, timeout: 10_000 })
    expect(await child.exited).toBe(2)
  } finally {
    closeSync(unread)
  }
})

test.each(['2>&1 | cat', '> both 2>&1; cat both'])('a note and its subject stay in order: %s', async (to) => {
  const script = `cd "$TOLLGATE_DATA" && "$0" "$1" admin token create ci ${to}`
  const child = Bun.spawn(['sh', '-c', script, process.execPath, MAIN], {
    env: { ...process.env, TOLLGATE_DATA: bench.folder },
    timeout: 20_000,
  })
  expect(await child.stdout.text()).toMatch(/^Created token .*:\n\S+\n$/)
})
