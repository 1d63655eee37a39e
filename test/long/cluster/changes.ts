/** Changes of the configuration at random nodes, and their results. */
import { expect } from 'bun:test'
import type { ClusterBench, ClusterNode } from './bench.ts'

interface MadeKey {
  name: string
  key: string
  /** When the change was confirmed; ms. */
  madeMs: number
  state: 'active' | 'revoked' | 'in doubt'
}

export interface Changes {
  keys: readonly MadeKey[]
  made: { keys: number; models: number }
  refused: Map<string, number>
  stop(): Promise<void>
}

/** @param places nodes that currently accept changes. */
export function changeAll(bench: ClusterBench, places: () => readonly ClusterNode[] = () => bench.nodes): Changes {
  const keys: MadeKey[] = []
  const refused = new Map<string, number>()
  let [renamed, isOver] = [0, false]
  const change = async (...argv: string[]): Promise<string | null> => {
    const { code, stdout, stderr } = await bench.oneOf(places()).run(...argv, '--json')
    if (code === 0) return stdout
    const reason = /"code":\s*"(\w+)"/.exec(stderr)?.[1] ?? stderr.slice(0, 200)
    refused.set(reason, (refused.get(reason) ?? 0) + 1)
    return null
  }
  const all = (async () => {
    for (let number = 0; !isOver; number++) {
      const name = `key ${number}`
      const made = await change('keys', 'create', '--name', name, '--rpm', String(bench.between(1_000, 9_000)))
      if (made !== null) {
        const { key } = JSON.parse(made)
        keys.push({ name, key, madeMs: Date.now(), state: 'active' })
        bench.lend(key)
      }
      if (number % 3 === 1) {
        const part = bench.between(60, 101) / 100
        await change('keys', 'edit', bench.budget.name, '--budget', ((part * bench.budget.nanoUsd) / 1e9).toFixed(4))
      }
      if (number % 3 === 2 && (await change('catalog', 'apply', '--prune', await bench.rename(`renamed/${number}`))))
        renamed++
      const other = keys.length > 3 && number % 3 === 0 ? bench.oneOf(keys) : null
      if (other?.state === 'active') {
        other.state = 'in doubt'
        if ((await change('keys', 'revoke', other.name)) !== null) other.state = 'revoked'
      }
      await Bun.sleep(bench.between(0, 100))
    }
  })()
  return {
    ...{ keys, refused },
    get made() {
      return { keys: keys.length, models: renamed }
    },
    async stop() {
      isOver = true
      await all
    },
  }
}

/** @param lost periods in which changes may have been lost: from and until, ms. */
export async function expectChanges(
  nodes: readonly ClusterNode[],
  { keys }: Changes,
  lost: readonly [number, number] | null,
): Promise<void> {
  const isKept = (madeMs: number) => lost === null || madeMs < lost[0] || madeMs > lost[1]
  for (const node of nodes) {
    const wrong = await Promise.all(
      keys.map(async ({ name, key, state, madeMs }) => {
        const { status } = await fetch(`${node.url}/v1/models`, { headers: { authorization: `Bearer ${key}` } })
        const isWrong =
          (state === 'revoked' && status !== 401) || (state === 'active' && status !== 200 && isKept(madeMs))
        return isWrong ? [{ node: node.name, name, state, status }] : []
      }),
    )
    expect(wrong.flat()).toEqual([])
  }
}
