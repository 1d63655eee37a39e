/**
 * `tollgate reconcile --take`: a provider's charges that the ledger lacks are recorded once, with a reason, and the
 * ledger stays consistent.
 */
import { afterEach, beforeEach, expect, test } from 'bun:test'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { socketPath } from '../../../src/server/protocol.ts'
import { costs, usage } from '../../ledger/reconcile/exports.ts'
import { type Gateway, startGateway } from '../../support/gateway.ts'
import { type Bench, createBench } from '../run.ts'

/** Time of the gateway's clock. */
const DAY = Date.UTC(2026, 10, 21)
const REASON = 'two calls timed out, billed by invoice 7'

let gateway: Gateway
let bench: Bench
beforeEach(async () => {
  gateway = await startGateway()
  bench = createBench(DAY + 86_400_000)
  bench.environment = { TOLLGATE_DATA: gateway.app.dataFolder, NO_COLOR: '1' }
})
afterEach(async () => {
  // Also recalculates every charge.
  await gateway.stop()
  bench.close()
})

const LINE = { model: 'large-v1', line_item: 'large-v1, input' }

/** @param beyond amounts of the bill that the ledger lacks. */
async function toFiles(beyond: {
  requests: number
  input: number
  output: number
  nanoUsd: number
}): Promise<string[]> {
  const rows = gateway.app.rows().filter(({ key_id: keyId }) => keyId !== 'correction')
  const sum = (of: (row: (typeof rows)[number]) => number) => rows.reduce((before, row) => before + of(row), 0)
  const nanoUsd = sum((row) => row.cost_nano_usd) + beyond.nanoUsd
  const pages = {
    'usage.json': usage(
      [
        {
          ...LINE,
          num_model_requests: rows.length + beyond.requests,
          input_tokens: sum((row) => row.prompt_tokens) + beyond.input,
          input_cached_tokens: sum((row) => row.cached_tokens),
          output_tokens: sum((row) => row.completion_tokens) + beyond.output,
        },
      ],
      DAY,
    ),
    'costs.json': costs([{ ...LINE, amount: { value: (nanoUsd / 1e9).toFixed(9), currency: 'usd' } }], DAY),
  }
  for (const [name, page] of Object.entries(pages)) writeFileSync(join(bench.folder, name), JSON.stringify(page))
  return Object.keys(pages)
}

const reconcile = (files: string[], ...argv: string[]) =>
  bench.run('reconcile', ...files, '--upstream', 'paid', ...argv)
const take = (files: string[], ...argv: string[]) => reconcile(files, '--take', '--reason', REASON, ...argv)
const json = async (...argv: string[]) => JSON.parse((await bench.run(...argv, '--json')).stdout)
const ask = async () => (await gateway.chat()).text()

test('is in reports, once, with its reason, on no budget, and the bill matches from then on', async () => {
  await ask()
  const files = await toFiles({ requests: 2, input: 900, output: 60, nanoUsd: 25_000_000 })
  const [before] = (await json('keys', 'list')).keys
  expect((await reconcile(files)).code).toBe(1)
  const taken = await take(files)
  expect(taken).toMatchObject({
    ...{ code: 0, stderr: 'note: Recorded 1 correction, $0.025. Details: tollgate audit log --action ledger\n' },
    stdout: expect.stringMatching(/^The bill matches the ledger: 1 day, 1 line/),
  })
  const { usage: rows } = await json('usage', '--by', 'key', '--since', '2026-11-21')
  expect(rows).toContainEqual(
    expect.objectContaining({
      ...{ key_id: 'correction', requests: 1, prompt_tokens: 900, completion_tokens: 60, cost_nano_usd: 25_000_000 },
    }),
  )
  expect((await json('usage', '--by', 'model', '--key', 'correction')).usage).toMatchObject([{ model: 'acme/large' }])
  expect((await json('keys', 'list')).keys).toEqual([before])
  expect((await bench.run('ledger', 'verify')).code).toBe(0)
  const { audit } = await json('audit', 'log', '--action', 'ledger')
  expect(audit).toMatchObject([
    {
      ...{ actor: 'cli', action: 'ledger.correct' },
      detail: { after: { day: '2026-11-21', upstream: 'paid', cost_nano_usd: 25_000_000, reason: REASON } },
    },
  ])
  expect((await bench.run('requests', 'show', audit[0].subject)).stdout).toContain("from      a provider's bill")
  // The same bill again.
  expect((await take(files)).stderr).toBe(
    'note: No line has a model and a cost above that of the ledger, so no correction was recorded.\n',
  )
  expect((await json('audit', 'log', '--action', 'ledger')).audit.length).toBe(1)
})

test('concurrent runs record once, and a bill that grew adds the difference', async () => {
  await ask()
  const files = await toFiles({ requests: 0, input: 5, output: 0, nanoUsd: 1_000_000 })
  await Promise.all([take(files), take(files), take(files)])
  const later = await toFiles({ requests: 0, input: 8, output: 2, nanoUsd: 3_500_000 })
  expect((await take(later)).code).toBe(0)
  const all = gateway.app.rows().filter(({ key_id: keyId }) => keyId === 'correction')
  const found = all.map(({ cost_nano_usd: nanoUsd, prompt_tokens: input, status }) => [nanoUsd, input, status])
  expect(found.toSorted()).toEqual([
    [1_000_000, 5, 'ok'],
    [2_500_000, 3, 'ok'],
  ])
  expect((await bench.run('ledger', 'verify')).code).toBe(0)
})

test('needs a reason and one upstream, and records nothing that the ledger has more of', async () => {
  await ask()
  const files = await toFiles({ requests: 0, input: 0, output: 0, nanoUsd: -2_000 })
  for (const argv of [['--take'], ['--reason', 'x'], ['--take', '--reason', ' '], ['--take', '--reason', 'a\u0007']])
    expect((await reconcile(files, ...argv)).code).toBe(2)
  expect((await take(files, '--upstream', 'single')).code).toBe(2)
  expect((await take(files)).stderr).toContain('no correction was recorded')
  expect(gateway.app.rows().length).toBe(1)
})

test("a bill beyond the ledger's range is refused, by the command and by the server", async () => {
  await ask()
  const files = await toFiles({ requests: 0, input: 0, output: 0, nanoUsd: 2 ** 54 })
  expect(await take(files)).toMatchObject({
    ...{ code: 1, stderr: expect.stringContaining('more of large-v1 on 2026-11-21 than the ledger can hold.') },
  })
  const correction = {
    ...{ dayMs: DAY, upstream: 'paid', upstreamModel: 'large-v1', model: 'acme/large', credential: null },
    ...{ nanoUsd: 1, ledgerNanoUsd: 0, figures: { input: 1 } },
  }
  for (const wrong of [
    { nanoUsd: 2 ** 53 },
    { nanoUsd: 0 },
    { nanoUsd: 1.5 },
    { figures: { input: -1 } },
    { dayMs: 5 },
  ]) {
    const response = await fetch('http://localhost/operator/ledger/corrections', {
      ...{ unix: socketPath(gateway.app.dataFolder), method: 'POST', headers: { 'content-type': 'application/json' } },
      body: JSON.stringify({ corrections: [{ ...correction, ...wrong }], reason: REASON }),
    })
    expect([response.status, await response.json()]).toEqual([
      400,
      { error: expect.objectContaining({ kind: 'invalid' }) },
    ])
  }
  expect(gateway.app.rows().length).toBe(1)
})

test("a server must run, so that a correction doesn't bypass its journal", async () => {
  const files = await toFiles({ requests: 1, input: 1, output: 1, nanoUsd: 1_000_000 })
  bench.environment = {}
  expect(await take(files.map((name) => join(bench.folder, name)))).toMatchObject({
    ...{ code: 1, stderr: expect.stringContaining('No server is running on this data folder') },
  })
})

test("no key can have the corrections' name", async () => {
  expect((await bench.run('keys', 'create', '--name', 'correction')).stderr).toContain('is reserved for corrections')
})
