/** Lines of a list of facts (`<dl class="facts">`). */
import type { ComponentChildren } from 'preact'
import { When } from './figure.tsx'

export const Fact = ({ name, children }: { name: string; children: ComponentChildren }) => (
  <>
    <dt>{name}</dt>
    <dd>{children}</dd>
  </>
)

/** When something happened; nothing where it has not. */
export const TimeFact = ({ name, ms }: { name: string; ms: number | null }) =>
  ms === null ? null : (
    <Fact name={name}>
      <When ms={ms} />
    </Fact>
  )
