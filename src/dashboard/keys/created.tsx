/** A new secret, shown once, with snippets that use it and the first request, live. */
import { useEffect, useState } from 'preact/hooks'
import { Secret, ShownOnce } from '../ui/controls.tsx'
import { When } from '../ui/figure.tsx'
import { announce } from '../ui/notice.tsx'
import { CodeTabs } from '../ui/tabs.tsx'
import { findModel, type UsableModel, useKey } from './data.ts'

interface CreatedKeyProps {
  id: string
  secret: string
  /** The key's last use before this secret was created. */
  lastUsedMs: number | null
}

export function CreatedKey({ id, secret, lastUsedMs }: CreatedKeyProps) {
  const [model, setModel] = useState<UsableModel | null>(null)
  useEffect(() => {
    void findModel(secret).then(setModel)
  }, [secret])
  const access = { baseUrl: `${location.origin}/v1`, secret, model: model?.id ?? 'MODEL' }
  return (
    <div class="made">
      <Secret text={secret} label="Copy key" />
      <ShownOnce />
      <FirstRequest id={id} lastUsedMs={lastUsedMs} />
      <h2>Connect a client</h2>
      <CodeTabs label="Clients" of={({ toSnippets }) => toSnippets(access, model?.output_modalities)} />
      {model === null && <p class="hint">Replace MODEL with a model ID.</p>}
    </div>
  )
}

const LOOK_MS = 2_000

function FirstRequest({ id, lastUsedMs }: Pick<CreatedKeyProps, 'id' | 'lastUsedMs'>) {
  const key = useKey(id, LOOK_MS).data
  const isUsed = key !== null && key.last_used_ms !== null && key.last_used_ms !== lastUsedMs
  useEffect(() => {
    if (isUsed) announce('First request received.')
  }, [isUsed])
  if (!isUsed || key.last_used_ms === null) {
    return (
      <p class="first-request" data-state="waiting">
        <span class="pulse" aria-hidden="true" />
        Waiting for the first request…
      </p>
    )
  }
  return (
    <p class="first-request" data-state="came">
      <span class="state good">First request received</span>
      <span>
        for <code>{key.last_model}</code>, <When ms={key.last_used_ms} />
      </span>
    </p>
  )
}
