/** What one key, or whoever can connect, may do to the others: each is in `attacker.ts`. */
export const ATTACKS = ['bodies', 'uploads', 'schemas', 'poison', 'connections'] as const
export type Attack = (typeof ATTACKS)[number]
