/** Snippets in tabs. */
import { Code } from './controls.tsx'
import { Tabs } from './tabs.tsx'

export const CodeTabs = ({ of, label }: { of: readonly { title: string; text: string }[]; label: string }) => (
  <Tabs label={label} tabs={of.map(({ title, text }) => ({ title, content: <Code text={text} label={title} /> }))} />
)
