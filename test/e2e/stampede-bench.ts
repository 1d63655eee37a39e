/**
 * The built binary with small budgets, exact upstream billing, and many concurrent requests; afterwards all accounts
 * are compared.
 */
import { Database } from 'bun:sqlite'
import { join } from 'node:path'
import { createWorkplace } from '../support/binary.ts'
import { costOf, HELLO, HELLO_TOKENS, toCatalogue } from '../support/gateway.ts'
import { type Seen, startUpstream } from '../support/upstream.ts'
import { streamAnswer, type WireUsageNumbers, wholeAnswer } from '../support/upstream-answers.ts'

/** Ten cents. */
export const BUDGET_NANO_USD = 100_000_000
export const BUDGET = '0.10'

/** Reserved by the usual request with this cap. */
export const reserveOf = (cap: number) => costOf(HELLO_TOKENS, cap)

export interface Asked {
  status: number
  code: string | null
  /** From the receipt of a complete response. */
  costNanoUsd: number | null
}

export interface Accounts {
  requests: number
  ledger: number
  reserved: number
  open: number
  rollup: number
  /** By ID of key or team with a budget. */
  spent: Record<string, number>
  auditCode: number | null
}

export interface StampedeBench {
  /** Holds responses until `free` is called; refusals are still sent. */
  hold(): void
  free(): void
  /** Billed for a call with this cap. Default: its reservation. */
  bill(usage: (cap: number) => WireUsageNumbers): void
  calls(): number
  key(...options: string[]): Promise<{ id: string; secret: string }>
  team(name: string): Promise<string>
  ask(secret: string, number: number, body: Record<string, unknown>): Promise<Asked>
  accounts(): Promise<Accounts>
  stop(): Promise<void>
}

export async function createStampedeBench(): Promise<StampedeBench> {
  let usageOf = (cap: number): WireUsageNumbers => ({ prompt_tokens: HELLO_TOKENS, completion_tokens: cap })
  let gate = Promise.withResolvers<void>()
  gate.resolve()
  const upstream = await startUpstream((seen) => toAnswer(seen, usageOf, gate.promise))
  const place = createWorkplace()
  const catalog = await place.write('catalog.yaml', toCatalogue({ url: upstream.url }))
  const { baseUrl } = await place.serve(['--catalog', catalog, '--probe', 'off'], {
    environment: { UPSTREAM_KEY: 'x' },
  })
  const json = async (...argv: string[]) => {
    const { code, stdout, stderr } = await place.run(...argv, '--json')
    if (code !== 0) throw new Error(`${argv.join(' ')}: ${stderr}`)
    return JSON.parse(stdout)
  }
  let keys = 0
  return {
    hold() {
      gate = Promise.withResolvers<void>()
    },
    free: () => gate.resolve(),
    bill(usage) {
      usageOf = usage
    },
    calls: () => upstream.requests.length,
    async key(...options) {
      const { id, key } = await json('keys', 'create', '--name', `crowd ${++keys}`, ...options)
      return { id, secret: key }
    },
    team: async (name) => (await json('teams', 'create', '--name', name, '--budget', BUDGET)).id,
    ask: (secret, number, body) => ask(baseUrl, secret, number % 2 === 0, body),
    async accounts() {
      const { keys } = await json('keys', 'list')
      const { teams } = await json('teams', 'list')
      const owners: { id: string; budget_nano_usd: number | null; spent_nano_usd: number }[] = [...keys, ...teams]
      const spent = owners.flatMap((owner) =>
        owner.budget_nano_usd === null ? [] : [[owner.id, owner.spent_nano_usd]],
      )
      const audit = await place.run('ledger', 'verify')
      const sqlite = new Database(join(place.folder, 'data/tollgate.db'), { readonly: true })
      const sums = sqlite.query<Omit<Accounts, 'spent' | 'auditCode'>, []>(SUMS).get()
      sqlite.close()
      if (!sums) throw new Error('no sums')
      return { ...sums, spent: Object.fromEntries(spent), auditCode: audit.code }
    },
    async stop() {
      await place.close()
      await upstream.stop()
    },
  }
}

const SUMS = `
  SELECT COUNT(*) AS requests, SUM(cost_nano_usd) AS ledger, SUM(reserved_nano_usd) AS reserved,
    SUM(status = 'open') AS open, (SELECT SUM(cost_nano_usd) FROM usage_hourly) AS rollup
  FROM requests`

/** Bills by the cap, or without one by the maximum output. */
function toAnswer({ json }: Seen, usageOf: (cap: number) => WireUsageNumbers, after: Promise<void>) {
  const usage = usageOf(Number(json?.max_tokens ?? 1_000))
  if (json?.stream) return { ...streamAnswer({ usage }), after }
  return {
    kind: 'stream' as const,
    headers: { 'content-type': 'application/json' },
    steps: [JSON.stringify(wholeAnswer({ usage }).body)],
    end: 'eof' as const,
    after,
  }
}

async function ask(baseUrl: string, secret: string, stream: boolean, body: Record<string, unknown>): Promise<Asked> {
  const response = await fetch(`${baseUrl}/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json' },
    body: JSON.stringify({ ...HELLO, ...(stream ? { stream, stream_options: { include_usage: true } } : {}), ...body }),
  })
  const text = await response.text()
  if (response.status !== 200) {
    return { status: response.status, code: JSON.parse(text).error.code, costNanoUsd: null }
  }
  const frames = text.split('\n\n').filter((frame) => frame.startsWith('data: {'))
  const last = JSON.parse(stream ? (frames.at(-1) ?? '').slice('data: '.length) : text)
  return { status: 200, code: last.error?.code ?? null, costNanoUsd: last.usage?.cost_nano_usd ?? null }
}
