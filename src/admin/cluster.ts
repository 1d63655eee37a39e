/** `/admin/api/cluster`: the nodes, and draining one of them. */
import { Elysia } from 'elysia'
import { findNode, requireGone } from '../cluster/nodes.ts'
import { ClusterDocument, NodeDocument, toNodeDocument } from '../documents/cluster.ts'
import { ServiceError } from '../domain/service-error.ts'
import { access } from './access.ts'
import type { AdminDeps } from './deps.ts'

export const clusterController = ({ serving: { cluster } }: AdminDeps) =>
  new Elysia({ name: 'cluster' })
    .use(access())
    .get(
      '/cluster',
      async (): Promise<ClusterDocument> => ({
        node: cluster?.state() ?? null,
        postgres: cluster?.postgres.server?.address ?? null,
        nodes: cluster ? (await asked(cluster.nodes())).map(toNodeDocument) : [],
      }),
      {
        route: {
          least: 'viewer',
          summary: 'List the nodes of the cluster',
          answer: ClusterDocument,
          errors: ['cluster_unreachable'],
        },
      },
    )
    .post(
      '/cluster/:id/drain',
      async ({ params: { id }, status }) => {
        const nodes = cluster ? await asked(cluster.nodes()) : []
        const { id: found, name } = findNode(nodes, id)
        await asked(cluster?.drain(found) ?? Promise.resolve())
        return status(202, { draining: name })
      },
      {
        route: {
          least: 'owner',
          summary: 'Ask a node to finish its requests and stop',
          description: 'By name or ID, at its next heartbeat. What starts the node again makes it active again.',
          answer: null,
          operation: { responses: { 202: { description: 'Asked.' } } },
          errors: ['node_not_found', 'cluster_unreachable'],
        },
      },
    )
    .delete(
      '/cluster/:id',
      async ({ params: { id } }) => {
        const node = requireGone(findNode(cluster ? await asked(cluster.nodes()) : [], id))
        await asked(cluster?.remove(node.id) ?? Promise.resolve())
        return toNodeDocument(node)
      },
      {
        route: {
          least: 'owner',
          summary: 'Remove a node that has stopped and does not come back',
          answer: NodeDocument,
          errors: ['node_not_found', 'node_lives', 'cluster_unreachable'],
        },
      },
    )

async function asked<T>(work: Promise<T>): Promise<T> {
  try {
    return await work
  } catch (error) {
    throw new ServiceError(
      { kind: 'cluster_unreachable', isInDoubt: false },
      error instanceof Error ? error.message : String(error),
    )
  }
}
