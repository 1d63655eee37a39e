/** The leader reports silent nodes, and problems that other nodes report. Alerts use these findings. */
import { toAge } from '../domain/time.ts'
import type { Cluster } from './cluster.ts'
import { isOnDuty } from './duties.ts'
import type { ClusterNode } from './nodes.ts'

const LOOK_MS = 5_000
/** A restart takes less. */
const SILENT_MS = 60_000
/** `cluster status` names the others. */
const MAX_NAMED = 3
const MAX_CHARS = 200

/** @param findOwn finds problems of this server. */
export async function watchNodes(
  cluster: Pick<Cluster, 'add' | 'leader' | 'node' | 'nodes'>,
  findOwn: () => string | null,
  lookMs = LOOK_MS,
): Promise<() => void> {
  let problem: string | null = null
  const look = async () => {
    if (!isOnDuty('nodes', cluster)) problem = null
    // While PostgreSQL is unreachable, the cluster reports that instead.
    else problem = toProblem(await cluster.nodes().catch(() => []), cluster.node.id)
  }
  const timer = setInterval(look, lookMs).unref()
  await cluster.add({
    facts() {
      // A leader's own findings would include the other nodes' problems.
      const own = isOnDuty('nodes', cluster) ? null : findOwn()
      return own === null ? {} : { problem: own.slice(0, MAX_CHARS) }
    },
    problem: () => problem,
    close: async () => clearInterval(timer),
  })
  return () => clearInterval(timer)
}

export function toProblem(nodes: readonly ClusterNode[], own: string): string | null {
  const found = nodes.flatMap(({ id, name, state, seenMsAgo, isLiving, facts }) => {
    if (id === own || state === 'stopped') return []
    if (!isLiving && seenMsAgo >= SILENT_MS)
      return `Node ${name} has been silent for ${toAge(seenMsAgo)}. If it isn't coming back: tollgate cluster leave ${name}`
    return isLiving && typeof facts.problem === 'string' ? `Node ${name}: ${facts.problem}` : []
  })
  const more = found.length - MAX_NAMED
  return found.length === 0
    ? null
    : [...found.slice(0, MAX_NAMED), more > 0 ? `And ${more} more.` : []].flat().join(' ')
}
