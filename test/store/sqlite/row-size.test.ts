/** What a request costs on the disk for as long as it is kept: in the table, its indexes and the rollup together. */
import { expect, test } from 'bun:test'
import { mintId, mintTag } from '../../../src/domain/id.ts'
import { createLedgerWriter } from '../../../src/store/sqlite/ledger-apply.ts'
import { readSpace } from '../../../src/store/sqlite/prune.ts'
import { createFolder, HOUR, settling, toOpen, toSettled } from '../../ledger/fixture.ts'
import { forEachTest } from '../../support/lifetime.ts'
import { createRandom } from '../../support/random.ts'

const folder = forEachTest(createFolder)

const ROWS = 16_000
const HOURS = 24
const MODELS = [
  { model: 'openai/gpt-4o-mini', upstream: 'openai', upstreamModel: 'gpt-4o-mini' },
  { model: 'anthropic/claude-sonnet-4.5', upstream: 'openrouter', upstreamModel: 'anthropic/claude-sonnet-4.5' },
  { model: 'meta-llama/llama-3.3-70b-instruct', upstream: 'vllm', upstreamModel: 'llama-3.3-70b-instruct' },
]

test('a common request takes some 400 bytes, also where forty keys share out three models', () => {
  const random = createRandom(7)
  const oneOf = <T>(all: readonly T[]) => all[Math.floor(random() * all.length)] as T
  const instance = mintTag()
  const keys = Array.from({ length: 40 }, (_, i) => ({
    keyId: mintId(HOUR),
    teamId: i % 2 === 0 ? mintId(HOUR) : null,
  }))
  const priceIds = MODELS.map(mintTag)
  const toRow = (number: number) => {
    const createdMs = HOUR + Math.floor((number * HOURS * 3_600_000) / ROWS)
    const target = oneOf(MODELS)
    const open = toOpen({
      createdMs,
      instance,
      priceId: priceIds[MODELS.indexOf(target)] ?? '',
      ...target,
      ...oneOf(keys),
    })
    const tokens = { promptTokens: 100 + Math.floor(random() * 9_000), completionTokens: Math.floor(random() * 2_000) }
    const times = { firstTokenMs: 100 + Math.floor(random() * 900), durationMs: 1_000 + Math.floor(random() * 9_000) }
    const upstreamRequestId = `req_${mintId(createdMs)}`
    const costNanoUsd = Math.floor(random() * 1e8)
    return settling(
      toSettled({ ...open, reservedNanoUsd: 41_234_567 }, { ...tokens, ...times, costNanoUsd, upstreamRequestId }),
    )
  }
  const store = createLedgerWriter(folder.database)
  const toBytes = () => {
    const { pages, freePages, pageBytes } = readSpace(folder.database)
    return (pages - freePages) * pageBytes
  }
  const before = toBytes()
  for (let at = 0; at < ROWS; at += 500) store.apply(Array.from({ length: 500 }, (_, i) => toRow(at + i)))
  const bytes = (toBytes() - before) / ROWS
  expect(bytes).toBeGreaterThan(300)
  expect(bytes).toBeLessThan(412)
})
