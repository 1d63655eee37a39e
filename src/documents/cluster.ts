/** Nodes of a cluster in JSON, for the admin API. */
import { type Static, Type } from '@sinclair/typebox'
import type { ClusterNode } from '../cluster/nodes.ts'
import { orNull, Text, TextOrNull, Time, wordOf } from './fields.ts'

const Facts = Type.Record(Type.String(), Type.Union([Type.String(), Type.Number(), Type.Boolean(), Type.Null()]), {
  description: 'What the parts of the node tell, such as rows that wait.',
})

export const OwnNode = Type.Object({
  ...{ id: Text, name: Text },
  reachable: Type.Boolean({ description: 'Whether PostgreSQL answers.' }),
  since_ms: Time,
  trouble: TextOrNull,
  leader: Type.Boolean({ description: 'Whether this node does the work that one node does for all.' }),
  living_nodes: Type.Integer({ description: 'Nodes seen in the last seconds, this one included.' }),
  clock_difference_ms: orNull(Type.Integer({ description: "PostgreSQL's clock less this machine's." })),
  facts: Facts,
})
export type OwnNodeDocument = Static<typeof OwnNode>

export const NodeDocument = Type.Object({
  ...{ id: Text, name: Text },
  epoch: Type.String({ description: 'Of its current run.' }),
  ...{ address: Text, version: Text },
  state: wordOf(['active', 'draining', 'stopped', 'left'] as const),
  living: Type.Boolean({ description: 'Seen in the last seconds.' }),
  started_ms: Time,
  seen_ms_ago: Type.Integer({ description: 'Milliseconds since its last heartbeat.' }),
  facts: Facts,
})
export type NodeDocument = Static<typeof NodeDocument>

export const ClusterDocument = Type.Object({
  node: orNull(OwnNode),
  postgres: orNull(Type.String({ description: 'Address of PostgreSQL.' })),
  nodes: Type.Array(NodeDocument),
})
export type ClusterDocument = Static<typeof ClusterDocument>

export const toNodeDocument = ({ id, name, epoch, address, version, state, ...node }: ClusterNode): NodeDocument => ({
  ...{ id, name, epoch, address, version, state, living: node.isLiving },
  ...{ started_ms: node.startedMs, seen_ms_ago: node.seenMsAgo, facts: node.facts },
})
