/** A code that lets somebody set a password, which is shown this once: to be given to them. */
import { toHref } from '../address/address.ts'
import { Code } from '../ui/copy.tsx'
import { When } from '../ui/figure.tsx'
import { Secret } from '../ui/secret.tsx'

interface CodedProps {
  name: string
  code: string
  expiresMs: number | null
}

export function Coded({ name, code, expiresMs }: CodedProps) {
  // Behind the `#`, which a browser sends to nobody.
  const link = `${location.origin}${toHref('/code')}#${code}`
  return (
    <div class="made">
      <p>
        <strong>{name}</strong> opens this link and sets a password of their own, which nobody else ever knows.
      </p>
      <Code text={link} label="Link for them" />
      <Secret text={code} label="Copy the code" />
      <p>
        <strong>Shown once.</strong> It works one time, for <code>{name}</code>
        {expiresMs !== null && (
          <>
            , and ends <When ms={expiresMs} />
          </>
        )}
        . Whoever has it can become them: give it to them alone.
      </p>
    </div>
  )
}
