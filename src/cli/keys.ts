/**
 * `tollgate keys create | list | revoke`. Works beside a running server, which takes a change within moments. A secret
 * is printed once, by `create`, alone on its line.
 */
import type { Command } from 'commander'
import type { ListedKey } from '../keys/service.ts'
import { toUsd } from '../wire/usage.ts'
import { type Io, printJson, sharedOptions, toDataFolder } from './io.ts'
import { toPrintable, toTable, toTime } from './text.ts'
import { toBudget, toCount, toExpiry, usageError } from './values.ts'

interface CreateOptions {
  name?: string
  model?: string[]
  scope?: string
  team?: string
  rpm?: string
  tpm?: string
  concurrency?: string
  budget?: string
  expires?: string
}

/** Adds the group to the program. */
export function addKeysCommands(program: Command, io: Io): void {
  const keys = program.command('keys').description('make, list and revoke keys')
  keys
    .command('create')
    .description('make a key and print it, once')
    .option('--name <name>', 'what the key is for (required)')
    .option('--model <pattern>', 'allow these models only, such as openai/* (may be repeated)', collect)
    .option('--scope <scope>', 'all, or local: local upstreams only')
    .option('--team <team>', 'name or id of a team')
    .option('--rpm <n>', 'requests per minute')
    .option('--tpm <n>', 'tokens per minute')
    .option('--concurrency <n>', 'requests at a time')
    .option('--budget <usd>', 'such as 20/month, 0.10/day, or 5 in total')
    .option('--expires <time>', 'such as 90d, 12h or 2027-01-31')
    .action((options: CreateOptions, command: Command) => create(options, command, io))
  keys
    .command('list')
    .description('list all keys, oldest first')
    .action((_options: unknown, command: Command) => list(command, io))
  keys
    .command('revoke')
    .description('stop a key for good')
    .argument('<id>', 'id of the key, or the last four characters of it')
    .action((id: string, _options: unknown, command: Command) => revoke(id, command, io))
}

const collect = (value: string, before: string[] = []) => [...before, value]

async function create(given: CreateOptions, command: Command, io: Io): Promise<void> {
  const nowMs = io.nowMs()
  const options = toKeyOptions(given, nowMs)
  const { openForCommand } = await import('../store/open.ts')
  const { createKey } = await import('../keys/service.ts')
  const { sqlite, store } = openForCommand(toDataFolder(command, io))
  try {
    const { key, secret } = createKey(store, options, { actor: 'cli', nowMs })
    const { id, name, ...rest } = toJson(key)
    if (sharedOptions(command).json) return printJson(io, { id, name, key: secret, ...rest })
    io.stderr(`Key ${id} (${toPrintable(name)}). Keep it now; it is not shown again:\n`)
    io.stdout(`${secret}\n`)
  } finally {
    sqlite.close()
  }
}

function toKeyOptions(given: CreateOptions, nowMs: number) {
  const name = given.name?.trim() ?? ''
  if (given.name === undefined) throw usageError('--name is missing: say what the key is for, such as --name dev.')
  if (name === '' || name.length > 200) throw usageError('--name must have 1 to 200 characters.')
  const { scope = 'all' } = given
  if (scope !== 'all' && scope !== 'local') throw usageError(`--scope '${scope}' is unknown: write all or local.`)
  const bad = given.model?.find((pattern) => !/^[^\s]{1,200}$/.test(pattern))
  if (bad !== undefined)
    throw usageError(`--model '${bad}' is no pattern: write a model such as openai/gpt-4o-mini or openai/*.`)
  return {
    name,
    scope,
    models: given.model ?? [],
    ...(given.team === undefined ? {} : { team: given.team }),
    ...(given.rpm === undefined ? {} : { requestsPerMinute: toCount('--rpm', given.rpm) }),
    ...(given.tpm === undefined ? {} : { tokensPerMinute: toCount('--tpm', given.tpm) }),
    ...(given.concurrency === undefined ? {} : { concurrency: toCount('--concurrency', given.concurrency) }),
    ...(given.budget === undefined ? {} : { budget: toBudget(given.budget) }),
    ...(given.expires === undefined ? {} : { expiresMs: toExpiry(given.expires, nowMs) }),
  } as const
}

async function list(command: Command, io: Io): Promise<void> {
  const { openForCommand } = await import('../store/open.ts')
  const { listKeys } = await import('../keys/service.ts')
  const { sqlite, store } = openForCommand(toDataFolder(command, io), { readonly: true })
  try {
    const all = listKeys(store, io.nowMs())
    if (sharedOptions(command).json) return printJson(io, { keys: all.map(toJson) })
    if (all.length === 0) return io.stderr('There are no keys yet. Make one with: tollgate keys create --name NAME\n')
    const headings = ['ID', 'NAME', 'KEY', 'SCOPE', 'MODELS', 'LIMITS', 'BUDGET', 'EXPIRES', 'STATUS']
    io.stdout(toTable(headings, all.map(toCells)))
  } finally {
    sqlite.close()
  }
}

async function revoke(id: string, command: Command, io: Io): Promise<void> {
  const { openForCommand } = await import('../store/open.ts')
  const { revokeKey } = await import('../keys/service.ts')
  const { sqlite, store } = openForCommand(toDataFolder(command, io))
  try {
    const { key, alreadyRevoked } = revokeKey(store, id, { actor: 'cli', nowMs: io.nowMs() })
    if (sharedOptions(command).json) return printJson(io, { ...toJson(key), already_revoked: alreadyRevoked })
    const what = `Key ${key.id} (${toPrintable(key.name)})`
    io.stdout(alreadyRevoked ? `${what} was revoked already.\n` : `${what} is revoked.\n`)
  } finally {
    sqlite.close()
  }
}

/** A key under its columns' names (design 6). */
function toJson(key: ListedKey) {
  return {
    id: key.id,
    name: key.name,
    last_four: key.lastFours.at(-1) ?? null,
    status: key.status,
    scope: key.scope,
    models: key.models,
    team_id: key.teamId,
    rpm: key.requestsPerMinute,
    tpm: key.tokensPerMinute,
    concurrency: key.concurrency,
    budget_nano_usd: key.budgetNanoUsd,
    budget_period: key.budgetPeriod,
    metadata: key.metadata,
    created_ms: key.createdMs,
    expires_ms: key.expiresMs,
    revoked_ms: key.revokedMs,
  }
}

function toCells(key: ListedKey): string[] {
  const limits = [
    key.requestsPerMinute === null ? [] : `${key.requestsPerMinute} rpm`,
    key.tokensPerMinute === null ? [] : `${key.tokensPerMinute} tpm`,
    key.concurrency === null ? [] : `${key.concurrency} at a time`,
  ].flat()
  return [
    key.id,
    toPrintable(key.name),
    key.lastFours.map((lastFour) => `sk-tg-…${lastFour}`).join(' '),
    key.scope,
    key.models.map(toPrintable).join(' ') || 'all',
    limits.join(', ') || '-',
    key.budgetNanoUsd === null ? '-' : `$${toUsd(key.budgetNanoUsd)}/${key.budgetPeriod ?? 'total'}`,
    key.expiresMs === null ? 'never' : toTime(key.expiresMs),
    key.status,
  ]
}
